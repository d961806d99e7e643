"""One POST to an address that a stranger chose. The only code that calls out.

Microsoft's AntiSSRF resolves the name once, refuses it if any of its addresses is not public, and connects
to the one that it checked. Redirects are not followed, proxies and .netrc of this machine are not used,
and the connection is cut when the time is over, however slowly the other side answers.
"""

from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from socket import SHUT_RDWR, socket
from threading import Lock, Timer
from time import monotonic
from typing import Any

from AntiSSRF import (  # type: ignore[import-untyped]
    AntiSSRFError,
    AntiSSRFPolicy,
    IPAddressRanges,
    PolicyConfigOptions,
)
from requests import RequestException, Response, Session
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from decisions.webhooks import Outcome, retry_after

#: Bytes of an answer that are kept.
KEPT_BODY = 1024
#: Characters of an error that are kept.
KEPT_ERROR = 300


class Poster:
    """Sends; any number of threads may share one."""

    def __init__(self, *, allow_private: bool, seconds: float) -> None:
        self._policy = _policy(allow_private)
        self._seconds = seconds

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Never raises: what goes wrong is the outcome."""
        started = monotonic()
        with _Deadline(self._seconds) as deadline, closing(self._session(deadline)) as session:
            try:
                answer = self._answer(session, deadline, url, headers, body)
            except (RequestException, HTTPError, AntiSSRFError, OSError, ValueError) as error:
                answer = {"error": self._words(error, deadline)}
        return Outcome(**answer, milliseconds=round((monotonic() - started) * 1000))

    def _answer(
        self,
        session: Session,
        deadline: "_Deadline",
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> dict[str, Any]:
        with session.post(
            url,
            data=body,
            headers=headers,
            timeout=self._seconds,
            allow_redirects=False,
            stream=True,
        ) as response:
            if deadline.over:
                raise TimeoutError  # headers that were cut off look like headers that ended
            return {
                "status_code": response.status_code,
                "response_body": _beginning(response),
                "retry_after": retry_after(response.headers.get("Retry-After"), datetime.now(UTC)),
            }

    def _session(self, deadline: "_Deadline") -> Session:
        session: Session = self._policy.get_antissrf_session()
        session.trust_env = False
        for adapter in session.adapters.values():
            adapter.poolmanager.pool_classes_by_scheme = deadline.pools  # type: ignore[attr-defined]
        return session

    def _words(self, error: Exception, deadline: "_Deadline") -> str:
        if deadline.over:
            return f"no answer within {self._seconds:g} s"
        return f"{type(error).__name__}: {error}".replace("\0", "")[:KEPT_ERROR]


def _policy(allow_private: bool) -> Any:
    policy = AntiSSRFPolicy(
        PolicyConfigOptions.NONE if allow_private else PolicyConfigOptions.EXTERNAL_ONLY_LATEST
    )
    policy.add_xff_header = False
    if allow_private:
        policy.allow_plain_text_http = True
        # The metadata services of clouds are nobody's receivers, on a private network even less.
        policy.add_denied_addresses([*IPAddressRanges.link_local, *IPAddressRanges.wireserver])
    return policy


def _beginning(response: Response) -> str:
    """Best effort: the status has come, and it alone decides."""
    kept = b""
    with suppress(RequestException, HTTPError, OSError):
        for chunk in response.iter_content(KEPT_BODY):
            kept += chunk
            if len(kept) >= KEPT_BODY:
                break
    return kept[:KEPT_BODY].decode(errors="replace").replace("\0", "\ufffd")


class _Deadline:
    """Cuts the connections that are opened through its pools, when the time is over.

    The timeouts of sockets are for each byte that they wait for, so they end no answer that drips.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._sockets: list[socket] = []
        self._lock = Lock()
        self._timer = Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for opened in self._sockets:
                opened.close()
            self._sockets.clear()

    @property
    def pools(self) -> Mapping[str, type[HTTPConnectionPool]]:
        watch = self._watch

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket:
                return watch(super()._new_conn())

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket:
                return watch(super()._new_conn())

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        return {"http": PlainPool, "https": SecurePool}

    def _watch(self, opened: socket) -> socket:
        # A second handle, since TLS takes the first one away.
        with self._lock:
            self._sockets.append(opened.dup())
        if self.over:
            self._cut()
        return opened

    def _cut(self) -> None:
        self.over = True
        with self._lock:
            for opened in self._sockets:
                with suppress(OSError):
                    opened.shutdown(SHUT_RDWR)
