import hmac
import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from decisions.errors import InvalidWebhook
from decisions.types import DeliveryStatus
from decisions.webhook_input import check_events, check_secret, check_url, new_secret
from decisions.webhooks import (
    FAILING_SECONDS,
    LONGEST_RETRY_AFTER,
    MAX_PAYLOAD,
    SCHEDULE,
    Delivery,
    Event,
    Outcome,
    judge,
    payload,
    retry_after,
    signed_headers,
)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def event(**data: Any) -> Event:
    return Event(id=7, type="batch.completed", created_at=NOW, data=data)


def delivery(tries: int = 1, failing_seconds: float = 0) -> Delivery:
    return Delivery(
        id=1,
        fence=1,
        tries=tries,
        endpoint_id=1,
        url="https://example.com/",
        secrets=(new_secret(),),
        failing_seconds=failing_seconds,
        event=event(id="batch_1"),
    )


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_a_delivery(status: int) -> None:
    verdict = judge(delivery(), Outcome(status_code=status), 0)
    assert verdict.status is DeliveryStatus.DELIVERED


@pytest.mark.parametrize("status", [100, 301, 302, 307, 308, 400, 401, 404, 429, 500, 502, 504])
def test_every_other_answer_waits_for_the_next_attempt(status: int) -> None:
    verdict = judge(delivery(), Outcome(status_code=status), 0)
    assert (verdict.status, verdict.delay, verdict.disable) == ("waiting", 5, None)


def test_no_answer_waits_for_the_next_attempt() -> None:
    assert judge(delivery(), Outcome(error="refused"), 0).status is DeliveryStatus.WAITING


def test_attempts_follow_the_schedule_of_the_specification_and_end() -> None:
    down = Outcome(status_code=503)
    verdicts = [judge(delivery(tries), down, 0) for tries in range(1, 11)]
    hours = [0, 5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]
    assert [hour * 3600 for hour in hours] == pytest.approx(SCHEDULE)
    assert [v.delay for v in verdicts[:-1]] == list(SCHEDULE[1:])
    assert verdicts[-1].status is DeliveryStatus.FAILED


def test_jitter_only_makes_an_attempt_later() -> None:
    down = Outcome(status_code=503)
    assert judge(delivery(3), down, 1).delay == pytest.approx(1800 * 1.2)


def test_gone_disables_the_endpoint() -> None:
    verdict = judge(delivery(), Outcome(status_code=410), 0)
    assert (verdict.status, verdict.disable) == ("failed", "gone")


def test_days_of_failure_disable_the_endpoint() -> None:
    down = Outcome(status_code=503)
    assert judge(delivery(1, FAILING_SECONDS - 1), down, 0).disable is None
    verdict = judge(delivery(1, FAILING_SECONDS + 1), down, 0)
    assert (verdict.status, verdict.disable) == ("failed", "failing")
    assert judge(delivery(1, FAILING_SECONDS + 1), Outcome(status_code=200), 0).disable is None


@pytest.mark.parametrize(
    ("asked", "waits"), [(1.0, 5.0), (120.0, 120.0), (1e9, LONGEST_RETRY_AFTER)]
)
def test_retry_after_puts_an_attempt_off_but_not_for_ever(asked: float, waits: float) -> None:
    verdict = judge(delivery(), Outcome(status_code=429, retry_after=asked), 0)
    assert verdict.delay == waits


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Sun, 29 Nov 2026 12:01:00 GMT", 60.0),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0.0),
        ("9" * 400, 999_999_999_999.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


def test_a_payload_is_thin_and_the_same_each_time() -> None:
    told = event(id="batch_1", status="completed")
    assert json.loads(payload(told)) == {
        "type": "batch.completed",
        "timestamp": "2026-11-29T12:00:00.000Z",
        "data": {"id": "batch_1", "status": "completed"},
    }
    assert payload(told) == payload(told)


def test_a_payload_that_would_be_long_tells_ids_alone() -> None:
    body = payload(event(id="dec_1", batch_id="batch_1", answer="\U0001f600" * 5000))
    assert json.loads(body)["data"] == {"id": "dec_1", "batch_id": "batch_1"}
    assert len(payload(event(id="dec_1", answer="x" * (MAX_PAYLOAD - 200)))) <= MAX_PAYLOAD


def signed(body: bytes, *keys: str, now: datetime | None = None) -> dict[str, str]:
    return dict(signed_headers(event(id="x"), keys, body, now or datetime.now(UTC)))


def test_a_signature_is_of_the_exact_bytes() -> None:
    secret = new_secret()
    body = payload(event(id="batch_1", name="héllo \u2028 \U0001f600"))
    headers = signed(body, secret)
    assert headers["webhook-id"] == "evt_7"
    assert Webhook(secret).verify(body, headers)["data"]["id"] == "batch_1"
    for wrong in (body + b" ", body.replace(b"batch_1", b"batch_2")):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(wrong, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(body, headers)


def test_an_old_signature_is_refused() -> None:
    secret = new_secret()
    old = signed(b"{}", secret, now=datetime.now(UTC) - timedelta(minutes=6))
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(secret).verify(b"{}", old)


def test_while_a_secret_is_rotated_either_verifies() -> None:
    new, old = new_secret(), new_secret()
    headers = signed(b"{}", new, old)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (new, old):
        assert Webhook(secret).verify(b"{}", headers) == {}


def test_the_signature_is_the_hmac_that_the_specification_describes() -> None:
    key = b"k" * 32
    told = Event(id=1, type="t", created_at=NOW, data={})
    secret = "whsec_" + b64encode(key).decode()
    headers = signed_headers(told, [secret], b'{"a":1}', datetime.fromtimestamp(1614265330, UTC))
    mac = hmac.new(key, b'evt_1.1614265330.{"a":1}', sha256).digest()
    assert headers["webhook-signature"] == f"v1,{b64encode(mac).decode()}"
    assert headers["webhook-timestamp"] == "1614265330"


def test_a_new_secret_is_one_that_we_take() -> None:
    assert check_secret(new_secret()) != check_secret(new_secret())


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "secret",
        "whsec_",
        "whsec_secret",
        b64encode(b"x" * 32).decode(),
        "whsec_" + b64encode(b"x" * 23).decode(),
        "whsec_" + b64encode(b"x" * 65).decode(),
        "whsec_" + "c2Vj" * 8 + "\n",
        "whsec_é" + "c2Vj" * 8,
    ],
)
def test_a_secret_that_others_would_read_differently_is_refused(secret: str) -> None:
    with pytest.raises(InvalidWebhook, match="whsec_"):
        check_secret(secret)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:word@example.com/",
        "https://example.com:99999/",
        "https://example.com:0/",
        "https://example.com/#part",
        "https://[::1/",
        "https://example.com/\n",
        "https://exam ple.com/",
        "//example.com/",
        "example.com",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_an_address_that_would_never_be_called_is_refused(url: str) -> None:
    with pytest.raises(InvalidWebhook):
        check_url(url, allow_private=False)


def test_plain_http_is_taken_where_private_addresses_are() -> None:
    assert check_url("http://localhost:8080/", allow_private=True)
    with pytest.raises(InvalidWebhook):
        check_url("file:///etc/passwd", allow_private=True)


def test_the_review_of_decisions_is_reserved() -> None:
    with pytest.raises(InvalidWebhook, match="reserved"):
        check_events(["decision.review"])
    with pytest.raises(InvalidWebhook, match="none of"):
        check_events(["batch.finished"])
    assert check_events(["decision.completed", "batch.failed", "batch.failed"]) == [
        "batch.failed",
        "decision.completed",
    ]
