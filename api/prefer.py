"""The Prefer header of RFC 7240: how long a client wants to wait."""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """What a client prefers; unknown preferences are ignored, as the RFC asks."""

    #: Do not wait at all.
    respond_async: bool = False
    #: Seconds to wait; None leaves it to the server.
    wait: int | None = None

    @classmethod
    def parse(cls, header: str) -> "Preference":
        names = [part.strip().lower() for part in re.split("[,;]", header)]
        waits = [
            found[1] for name in names if (found := re.fullmatch(r"wait\s*=\s*(\d{1,6})", name))
        ]
        return cls(respond_async="respond-async" in names, wait=int(waits[0]) if waits else None)

    @property
    def applied(self) -> dict[str, str]:
        """The header that says what was heeded."""
        if self.respond_async:
            return {"Preference-Applied": "respond-async"}
        return {} if self.wait is None else {"Preference-Applied": f"wait={self.wait}"}


async def _preference(prefer: Annotated[str, Header()] = "") -> Preference:
    return Preference.parse(prefer)


PreferenceDep = Annotated[Preference, Depends(_preference)]
