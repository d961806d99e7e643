"""Calls to addresses that strangers chose, against real sockets."""

import socket
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
import requests
import urllib3

from decisions.webhooks import Outcome
from tests.receiver import CERTIFICATE, Answer, Receiver, receiving
from workers.webhooks_http import Poster

BODY = '{"type":"t","data":{"text":"h\u00e9llo \u2028"}}'.encode()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def post(url: str, *, allow_private: bool = True, seconds: float = 30) -> Outcome:
    poster = Poster(allow_private=allow_private, seconds=seconds)
    return poster.post(url, {"webhook-id": "evt_1", "Content-Type": "application/json"}, BODY)


def test_the_bytes_and_headers_arrive_as_they_are(receiver: Receiver) -> None:
    outcome = post(receiver.url)
    call = receiver.next()
    assert (outcome.status_code, outcome.response_body, outcome.error) == (200, "thank you", None)
    assert call.body == BODY
    assert (call.id, call.headers["content-type"]) == ("evt_1", "application/json")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_metadata_address_is_not_followed(receiver: Receiver, status: int) -> None:
    where = "http://169.254.169.254/latest/meta-data/"
    receiver.answer = lambda _: Answer(status=status, headers={"Location": where})
    outcome = post(receiver.url)
    assert (outcome.status_code, outcome.ok) == (status, False)
    assert len(receiver.all()) == 1


def test_a_redirect_to_itself_is_not_followed_either(receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status=302, headers={"Location": receiver.url})
    assert post(receiver.url).status_code == 302
    assert len(receiver.all()) == 1


PRIVATE = [
    "https://127.0.0.1:{port}/",
    "https://localhost:{port}/",
    "https://2130706433:{port}/",
    "https://0x7f.1:{port}/",
    "https://0177.0.0.1:{port}/",
    "https://127.1:{port}/",
    "https://[::1]:{port}/",
    "https://[::ffff:127.0.0.1]:{port}/",
    "https://[64:ff9b::7f00:1]:{port}/",
    "https://0.0.0.0:{port}/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[fd00:ec2::254]/",
    "https://168.63.129.16/",
    "https://224.0.0.1/",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_no_private_address_is_called_however_it_is_written(receiver: Receiver, url: str) -> None:
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    outcome = post(url.format(port=port), allow_private=False)
    assert outcome.status_code is None
    assert outcome.error is not None
    assert "denied by policy" in outcome.error
    assert receiver.all() == []


def test_plain_http_is_not_called(receiver: Receiver) -> None:
    outcome = post("http://93.184.215.14/", allow_private=False, seconds=2)
    assert outcome.error == "AntiSSRFError: HTTP request is not allowed by policy"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "[::ffff:169.254.169.254]", "168.63.129.16"]
)
def test_metadata_is_not_called_even_where_private_addresses_are(address: str) -> None:
    outcome = post(f"http://{address}/latest/meta-data/")
    assert outcome.error is not None
    assert "denied by policy" in outcome.error


Resolve = Callable[[dict[str, list[str]]], list[str]]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Names with the addresses that each look-up finds, one after the other; returns the look-ups."""

    def install(names: dict[str, list[str]]) -> list[str]:
        asked: list[str] = []
        real = socket.getaddrinfo

        def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
            if host not in names:
                return real(host, *arguments, **options)
            asked.append(host)
            return real(names[host].pop(0), *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        return asked

    return install


def test_a_name_that_resolves_to_a_private_address_is_not_called(
    receiver: Receiver, resolve: Resolve
) -> None:
    resolve({"innocent.example": ["10.1.2.3"]})
    outcome = post("https://innocent.example/", allow_private=False)
    assert outcome.error is not None
    assert "denied by policy" in outcome.error


def test_the_address_that_was_checked_is_the_one_that_is_called(
    receiver: Receiver, resolve: Resolve
) -> None:
    # A second look-up would find nothing to answer with.
    asked = resolve({"rebind.example": ["127.0.0.1"]})
    assert post(receiver.url.replace("127.0.0.1", "rebind.example")).ok
    assert asked == ["rebind.example"]
    assert receiver.next().headers["host"] == "rebind.example"


def test_a_name_that_nobody_knows_is_an_error(resolve: Resolve) -> None:
    outcome = post("https://no-such-name.invalid/", allow_private=False)
    assert (outcome.status_code, outcome.ok) == (None, False)
    assert outcome.error


def test_tls_is_verified_against_the_name_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, resolve: Resolve
) -> None:
    names = {"receiver.test": ["127.0.0.1"] * 2, "other.test": ["127.0.0.1"]}
    resolve(names)
    with receiving(tls=True) as receiver:
        strange = post(receiver.url)
        assert strange.error is not None
        assert "CERTIFICATE_VERIFY_FAILED" in strange.error
        monkeypatch.setattr(requests.adapters, "DEFAULT_CA_BUNDLE_PATH", str(CERTIFICATE))
        assert post(receiver.url).ok
        wrong = post(receiver.url.replace("receiver.test", "other.test"))
        assert wrong.error is not None
        assert "other.test" in wrong.error
        assert len(receiver.all()) == 1


def test_a_public_address_is_called_by_number_and_greeted_by_name(
    monkeypatch: pytest.MonkeyPatch, resolve: Resolve
) -> None:
    # The only part that is not real: the last hop, which leads to a receiver of ours.
    called: list[tuple[str, int]] = []
    connect = urllib3.util.connection.create_connection

    def detour(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        called.append(address)
        return connect(("127.0.0.1", address[1]), *arguments, **options)

    monkeypatch.setattr(urllib3.util.connection, "create_connection", detour)
    monkeypatch.setattr(requests.adapters, "DEFAULT_CA_BUNDLE_PATH", str(CERTIFICATE))
    resolve({"receiver.test": ["93.184.215.14"]})
    with receiving(tls=True) as receiver:
        assert post(receiver.url, allow_private=False).ok
        assert [host for host, _ in called] == ["93.184.215.14"]
        headers = receiver.next().headers
    assert headers["host"] == "receiver.test"
    assert "x-forwarded-for" not in headers


def test_what_this_machine_has_set_up_for_proxies_and_passwords_is_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    secrets = tmp_path / "netrc"
    secrets.write_text("machine 127.0.0.1 login me password secret\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("NETRC", str(secrets))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert post(receiver.url).ok
    assert "authorization" not in receiver.next().headers


def test_a_receiver_that_hangs_is_left_in_time(receiver: Receiver) -> None:
    receiver.answer = receiver.hang
    outcome = post(receiver.url, seconds=0.3)
    assert (outcome.status_code, outcome.error) == (None, "no answer within 0.3 s")


def test_a_receiver_that_drips_is_cut_off(receiver: Receiver) -> None:
    cut_off = Event()

    def drip(write: Callable[[bytes], Any]) -> None:
        write(b"HTTP/1.1 200 OK\r\nX-Drops: ")
        try:
            for _ in range(500):
                receiver.ending.wait(0.02)
                write(b"x")
        except OSError:
            cut_off.set()
        write(b"\r\n\r\n")

    receiver.write = drip
    outcome = post(receiver.url, seconds=0.4)
    assert (outcome.status_code, outcome.error) == (None, "no answer within 0.4 s")
    assert cut_off.wait(5)


def test_a_body_that_never_ends_does_not_spoil_a_good_answer(receiver: Receiver) -> None:
    def pour(write: Callable[[bytes], Any]) -> None:
        write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not receiver.ending.is_set():
            write(b"x" * 65536)

    receiver.write = pour
    outcome = post(receiver.url)
    assert (outcome.status_code, outcome.response_body) == (200, "x" * 1024)


def test_a_body_that_stops_in_the_middle_does_not_spoil_a_good_answer(receiver: Receiver) -> None:
    def stop(write: Callable[[bytes], Any]) -> None:
        write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nhalf")

    receiver.write = stop
    assert post(receiver.url).ok


def test_an_answer_that_postgres_could_not_hold_is_made_fit(receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status=500, body=b"\x00\xff\xfeno")
    assert post(receiver.url).response_body == "\ufffd\ufffd\ufffdno"


def test_retry_after_is_read(receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(status=429, headers={"Retry-After": "77"})
    assert post(receiver.url).retry_after == 77


def test_what_is_no_http_at_all_is_an_error(receiver: Receiver) -> None:
    receiver.write = lambda write: write(b"SSH-2.0-OpenSSH_9.9\r\n")
    outcome = post(receiver.url)
    assert outcome.status_code is None
    assert outcome.error


def test_a_port_where_nobody_listens_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        outcome = post(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert outcome.error is not None
    assert "refused" in outcome.error
