"""Truth as people send it: one object, JSON Lines or CSV, to values; and an answer to its question's own name for it.

    {"decision_id"} or {"batch_id", "custom_id", "question"}, {"answer", "source"?, "time"?}

A CSV has these as its columns; an empty cell is none. What is wrong with a line is an ItemError that
never concerns the lines beside it.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from decisions.errors import InvalidItem, InvalidTruth, NotFound
from decisions.ids import BATCH, DECISION, number_of, uuid_of
from decisions.items import shortened
from decisions.lines import split_lines
from decisions.strict_json import decode, refuse_nul
from decisions.types import ItemError, Json, Question, QuestionType

FIELDS = ("decision_id", "batch_id", "custom_id", "question", "answer", "source", "time")
MAX_SOURCE = 128
#: Clocks differ; a time beyond this would be the newest for ever.
_AHEAD = timedelta(minutes=5)

_SIDES = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTruth:
    """What somebody says the right answer is, of a decision by its id or by its name."""

    line: int
    decision_id: int | None = None
    #: Batch, custom_id and question; when there is no id.
    name: tuple[UUID, str, str] | None = None
    answer: Json
    source: str
    said_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What a line gets that it does not say itself."""

    now: datetime
    batch_id: str | None = None
    question: str | None = None
    source: str = "api"


def read_lines(raw: bytes, defaults: Defaults, max_bytes: int) -> Iterator[NewTruth | ItemError]:
    """From JSON Lines."""
    for line in split_lines([raw], max_bytes):
        if line.content is None:
            message = f"the line is longer than {max_bytes} bytes"
            yield ItemError(code="line_too_long", message=message, line=line.number)
            continue
        try:
            wire = decode(line.content)
        except InvalidItem as wrong:
            yield refused(wrong, line.number)
            continue
        yield _checked(wire, line.number, defaults)


def read_csv(raw: bytes, defaults: Defaults) -> Iterator[NewTruth | ItemError]:
    """Raises InvalidTruth for a header that cannot be read."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise InvalidTruth(f"not UTF-8: {wrong.reason} at byte {wrong.start}") from None
    rows = csv.reader(io.StringIO(text, newline=""))
    columns = next(rows, [])
    if unknown := sorted(set(columns) - set(FIELDS)):
        raise InvalidTruth(f"unknown column(s) {unknown}; known: {', '.join(FIELDS)}")
    return _rows(rows, columns, defaults)


def _rows(
    rows: Iterator[list[str]], columns: list[str], defaults: Defaults
) -> Iterator[NewTruth | ItemError]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as wrong:
            yield ItemError(code="invalid_csv", message=str(wrong), line=_line_of(rows))
            continue
        if not row:
            continue
        if len(row) != len(columns):
            message = f"{len(row)} cells, but {len(columns)} columns"
            yield ItemError(code="invalid_csv", message=message, line=_line_of(rows))
            continue
        cells: dict[str, Json] = {n: cell for n, cell in zip(columns, row, strict=True) if cell}
        yield _checked(cells, _line_of(rows), defaults)


def _line_of(rows: Iterator[list[str]]) -> int:
    number: int = rows.line_num  # type: ignore[attr-defined]
    return number


def _checked(wire: Json, line: int, defaults: Defaults) -> NewTruth | ItemError:
    try:
        return check_truth(wire, line, defaults)
    except (InvalidTruth, InvalidItem, NotFound) as wrong:
        return refused(wrong, line)


def refused(wrong: InvalidTruth | InvalidItem | NotFound, line: int) -> ItemError:
    code = "not_found" if isinstance(wrong, NotFound) else "invalid_truth"
    return ItemError(
        code=getattr(wrong, "code", code),
        message=shortened(wrong.message),
        param=wrong.param and shortened(wrong.param),
        line=line,
    )


def check_truth(wire: Json, line: int, defaults: Defaults) -> NewTruth:
    """Raises InvalidTruth or InvalidItem with the field at fault, NotFound for a name that is none of ours."""
    if not isinstance(wire, dict):
        raise InvalidTruth("must be an object")
    if unknown := sorted(set(wire) - set(FIELDS)):
        raise InvalidTruth(f"unknown field(s) {unknown}", param=unknown[0])
    refuse_nul(wire)
    if "answer" not in wire:
        raise InvalidTruth("answer is required", param="answer")
    by_id = _text(wire, "decision_id")
    return NewTruth(
        line=line,
        decision_id=None if by_id is None else number_of(DECISION, by_id),
        name=_name(wire, defaults) if by_id is None else None,
        answer=wire["answer"],
        source=_source(wire, defaults),
        said_at=_time(wire, defaults.now),
    )


def _name(wire: Mapping[str, Json], defaults: Defaults) -> tuple[UUID, str, str]:
    given = {
        "batch_id": _text(wire, "batch_id") or defaults.batch_id,
        "custom_id": _text(wire, "custom_id"),
        "question": _text(wire, "question") or defaults.question,
    }
    for field, value in given.items():
        if value is None:
            raise InvalidTruth(
                f"say decision_id, or batch_id, custom_id and question; {field} is missing",
                param=field,
            )
    return uuid_of(BATCH, str(given["batch_id"])), str(given["custom_id"]), str(given["question"])


def _text(wire: Mapping[str, Json], field: str) -> str | None:
    value = wire.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidTruth(f"{field} must be a string", param=field)
    return value or None


def _source(wire: Mapping[str, Json], defaults: Defaults) -> str:
    source = _text(wire, "source") or defaults.source
    if len(source) > MAX_SOURCE:
        raise InvalidTruth(f"source is longer than {MAX_SOURCE} characters", param="source")
    return source


def _time(wire: Mapping[str, Json], now: datetime) -> datetime:
    """Without a zone it is UTC."""
    text = _text(wire, "time")
    if text is None:
        return now
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidTruth(
            "time must be ISO 8601, such as 2026-03-29T09:00:00Z", param="time"
        ) from None
    if time > now + _AHEAD:
        raise InvalidTruth("time is in the future", param="time")
    return time


def name_of_answer(question: Question, answer: Json) -> str:
    """What the question calls this answer. Raises InvalidTruth when it has no such answer.

    A yes/no also takes true and false, a score also the number of a level, from 0 as in its legend.
    """
    names = [option.name for option in question.options]
    side = answer if isinstance(answer, bool) else _SIDES.get(str(answer).lower())
    if question.type is QuestionType.NOUL and side is not None:
        return names[question.yes if side else 1 - question.yes]
    if isinstance(answer, str) and answer in names:
        return answer
    if question.type is QuestionType.SCORE and not isinstance(answer, bool):
        number = str(answer)
        if number.isascii() and number.isdigit() and int(number) < len(names):
            return names[int(number)]
    known = ", ".join(names)
    raise InvalidTruth(f"answer must be one of: {known}", param="answer")
