"""Lines of a stream, checked and put together: what becomes one small batch.

A line is an item as in a file, and may have a `key` besides. The first line may instead be
`{"questions": ..., "instructions"?: ...}`, for all that bring none of their own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from decisions.bodies import system_one_body
from decisions.errors import DecisionError, InvalidItem, InvalidQuestion
from decisions.item_keys import MAX_KEY
from decisions.items import NewItem, check_item, shortened, too_long
from decisions.lines import Line
from decisions.questions import Rules, parse_question_set
from decisions.strict_json import decode, may_hold_nul, refuse_nul
from decisions.types import ItemError, Json

ENDPOINT = "/v1/systemone"

#: Items of one batch.
GROUP = 64

_SHARED = {"questions", "instructions"}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A line. Its item's line is that of the stream."""

    item: NewItem
    #: The client's own, under which this is never read twice.
    key: str | None = None


class Incomings:
    """From lines to items, under the questions that they share."""

    def __init__(
        self,
        shared: Mapping[str, Json],
        rules: Rules,
        models: Collection[str] | None,
        max_bytes: int,
    ) -> None:
        self._rules = rules
        self._models = models
        self._max_bytes = max_bytes
        self._first = True
        self._share(shared)

    def _share(self, shared: Mapping[str, Json]) -> None:
        self._parse = system_one_body(shared, self._rules, self._models)

    def read(self, line: Line) -> Incoming | None:
        """None for a first line that is no item. What is wrong with a line becomes the item's error."""
        if line.content is None:
            return Incoming(too_long(line.number, self._max_bytes))
        try:
            wire = decode(line.content)
            if may_hold_nul(line.content):
                refuse_nul(wire)
            first, self._first = self._first, False
            if first and isinstance(wire, dict) and "questions" in wire and wire.keys() <= _SHARED:
                parse_question_set(wire["questions"], wire.get("instructions"), self._rules)
                self._share(wire)
                return None
            key = _taken_key(wire)
        except (InvalidItem, InvalidQuestion) as wrong:
            return Incoming(_refused(line.number, wrong))
        item = check_item(wire, line.number, self._parse, ENDPOINT, search_nul=False)
        return Incoming(item, key if item.body else None)


def _taken_key(wire: Json) -> str | None:
    """Takes it out of the item."""
    key = wire.pop("key", None) if isinstance(wire, dict) else None
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        message = f"key must be a string of 1 to {MAX_KEY} characters"
        raise InvalidItem("invalid_key", message, param="key")
    return key


def _refused(line: int, wrong: DecisionError) -> NewItem:
    return NewItem(
        line=line,
        custom_id=None,
        error=ItemError(
            code=getattr(wrong, "code", "invalid_question"),
            message=shortened(wrong.message),
            param=wrong.param and shortened(wrong.param),
            line=line,
        ),
    )


def grouped(incomings: Iterable[Incoming]) -> Iterator[list[Incoming]]:
    """Groups for one batch each, none of which has a custom_id or a key twice."""
    group: list[Incoming] = []
    names: set[tuple[str, str]] = set()
    for incoming in incomings:
        item, key = incoming.item, incoming.key
        own = {("id", item.custom_id or ""), ("key", key or "")} - {("id", ""), ("key", "")}
        if len(group) == GROUP or own & names:
            yield group
            group, names = [], set()
        group.append(incoming)
        names |= own
    if group:
        yield group
