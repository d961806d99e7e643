"""The webhook receiver of a chaos run: it notes every id that it was told, and refuses a tenth of them once."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

HOST = "127.0.0.1"
_REFUSED_SHARE = 0.1


class Receiver:
    """What was told. Safe to use from many threads."""

    def __init__(self, seed: int) -> None:
        #: Batch id -> the webhook-ids under which it was told.
        self.told: defaultdict[str, set[str]] = defaultdict(set)
        self.calls = 0
        self._seen: set[str] = set()
        self._draw = random.Random(seed)  # noqa: S311 - not a secret
        self._lock = Lock()

    def accept(self, webhook_id: str, batch_id: str) -> bool:
        """Whether to answer with a 2xx; what is refused once is accepted the next time."""
        with self._lock:
            self.calls += 1
            first = webhook_id not in self._seen
            self._seen.add(webhook_id)
            if first and self._draw.random() < _REFUSED_SHARE:
                return False
            self.told[batch_id].add(webhook_id)
            return True


@contextmanager
def listening(receiver: Receiver) -> Iterator[str]:
    """The receiver's URL, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            accepted = receiver.accept(self.headers["webhook-id"], body["data"]["id"])
            self.send_response(204 if accepted else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: the books tell."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
