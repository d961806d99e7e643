"""What a client may say of a webhook: its address, its secret, its events."""

import base64
import binascii
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from decisions.errors import InvalidWebhook
from decisions.webhooks import EVENTS, EventType

#: Characters of a URL.
MAX_URL = 2048

_PREFIX = "whsec_"


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: str) -> str:
    """Raises InvalidWebhook unless it is `whsec_` and the base64 of 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidWebhook(
            "a secret is whsec_ and the base64 of 24 to 64 bytes; leave it out to get one",
            param="secret",
        )
    return secret


def check_url(url: str, *, allow_private: bool) -> str:
    """Raises InvalidWebhook for what would never be called. Addresses are checked when they are."""
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    schemes = ("https", "http") if allow_private else ("https",)
    if not whole or parts.scheme not in schemes or len(url) > MAX_URL or not _plain(url):
        raise InvalidWebhook(f"must be an address of {' or '.join(schemes)}", param="url")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidWebhook("must have no user, password or fragment", param="url")
    return url


def _plain(url: str) -> bool:
    return url.isprintable() and " " not in url


def check_events(events: Sequence[str]) -> list[str]:
    """Raises InvalidWebhook for a type that cannot be chosen."""
    for name in events:
        if name == EventType.DECISION_REVIEW:
            raise InvalidWebhook(
                "decision.review is reserved: there are no policies yet that send decisions to people",
                param="events",
            )
        if name not in EVENTS:
            raise InvalidWebhook(f"{name!r} is none of {', '.join(EVENTS)}", param="events")
    return sorted(set(events))
