"""A webhook receiver on a real socket, which behaves as badly as a test wants."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any

from standardwebhooks import Webhook

#: A key and its certificate, for the name `receiver.test` alone.
CERTIFICATE = Path(__file__).parent / "data" / "receiver.test.pem"

SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the receiver was sent."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> Any:
        """The payload. Raises WebhookVerificationError unless `secret` signed exactly these bytes."""
        return Webhook(secret).verify(self.body, dict(self.headers))


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"thank you"


class Receiver:
    """Keeps its calls, and answers each as `answer` says, which may take its time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: Queue[Call] = Queue()
        self.answer: Callable[[Call], Answer] = lambda _: Answer()
        #: Writes what it likes instead of an answer, until the other side hangs up.
        self.write: Callable[[Callable[[bytes], Any]], None] | None = None
        #: Set at the end, so that nothing that hangs hangs for ever.
        self.ending = Event()

    def next(self) -> Call:
        return self.calls.get(timeout=SECONDS)

    def all(self) -> list[Call]:
        """Those that have come and were not looked at."""
        return [self.calls.get_nowait() for _ in range(self.calls.qsize())]

    def hang(self, _: Call) -> Answer:
        self.ending.wait(SECONDS)
        return Answer()


@contextmanager
def receiving(*, tls: bool = False) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            call = Call(path=self.path, headers=headers, body=body)
            receiver.calls.put(call)
            try:
                self._say(call)
            except OSError:
                self.close_connection = True  # the sender has hung up

        def do_GET(self) -> None:
            receiver.calls.put(Call(path=self.path, headers={}, body=b"followed a redirect"))
            self.send_error(404)

        def _say(self, call: Call) -> None:
            if receiver.write is not None:
                receiver.write(self.wfile.write)
                return
            answer = receiver.answer(call)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    host = "receiver.test" if tls else "127.0.0.1"
    receiver = Receiver(f"{'https' if tls else 'http'}://{host}:{server.server_port}/hook")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()
