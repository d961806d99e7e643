"""The models that live workers serve, asked of the database every two seconds, or until there is one."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from decisions import fleet
from decisions.database import async_transaction

#: Seconds that an answer stands.
FRESH = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    name: str
    #: Unix seconds of the start of the first worker that serves it.
    since: int


class ServedModels:
    def __init__(self, database: AsyncEngine, aliases: Sequence[str]) -> None:
        self._database = database
        self._aliases = aliases
        self._models: Sequence[ServedModel] = ()
        self._asked = float("-inf")

    async def models(self) -> Sequence[ServedModel]:
        """Longest served first; none while no worker lives."""
        if not self._models or time.monotonic() - self._asked > FRESH:
            async with async_transaction(self._database) as connection:
                rows = (await connection.execute(fleet.live())).all()
            since = {row.model: int(row.started_at.timestamp()) for row in reversed(rows)}
            self._models = [ServedModel(name=n, since=t) for n, t in reversed(since.items())]
            self._asked = time.monotonic()
        return self._models

    async def names(self) -> frozenset[str] | None:
        """What a request may ask for. None while no worker lives: then nobody can say what will be."""
        models = await self.models()
        return frozenset([*(m.name for m in models), *self._aliases]) if models else None

    def reader(self, asked: str | None) -> str:
        """The model that must read what asked for this name; empty when any served one may."""
        return "" if asked is None or asked in self._aliases else asked
