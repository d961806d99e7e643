"""What `submit` reads: JSON Lines as they are, or CSV by a column mapping; a path or `-` for stdin.

Lines of JSON are sent byte for byte: the API checks them and names the line, so nothing is checked twice.
"""

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import yaml


def load_questions(path: Path) -> dict[str, object]:
    """`questions`, and `instructions` if there are any, from YAML or JSON. Raises ValueError."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML or JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: must map `questions` to questions")
    asked = loaded if "questions" in loaded else {"questions": loaded}
    if unknown := sorted(set(asked) - {"questions", "instructions"}):
        raise ValueError(f"{path}: unknown field(s) {unknown}; known: questions, instructions")
    return asked


@contextmanager
def json_lines(source: str, mapping: Mapping[str, str], as_csv: bool) -> Iterator[Path]:
    """A file of JSON Lines with what `source` holds; a temporary one where it has to be made."""
    if source != "-" and not as_csv:
        path = Path(source)
        if not path.is_file():
            raise ValueError(f"{source}: no such file")
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as made, _opened(source) as stream:
        if as_csv:
            made.writelines(csv_items(stream, mapping))
        else:
            shutil.copyfileobj(stream, made)
        made.flush()
        yield Path(made.name)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(source).open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise ValueError(f"{source}: no such file") from None


def csv_items(stream: BinaryIO, mapping: Mapping[str, str]) -> Iterator[bytes]:
    """One item per row. `mapping` names the columns of `custom_id` and of `state`.

    Without a `state` column the state is an object of every column but the custom_id's; without a
    custom_id column an item is called by its row. Raises ValueError for a column that is not there.
    """
    text = (line.decode("utf-8-sig" if n == 0 else "utf-8") for n, line in enumerate(stream))
    rows = csv.DictReader(text)
    columns = list(rows.fieldnames or [])
    for wanted in mapping.values():
        if wanted not in columns:
            raise ValueError(f"the CSV has no column {wanted!r}; it has {', '.join(columns)}")
    id_column, state_column = mapping.get("custom_id"), mapping.get("state")
    for number, row in enumerate(rows, start=1):
        cells = {name: value for name, value in row.items() if name is not None}
        custom_id = cells[id_column] if id_column else f"row-{number}"
        state = (
            cells[state_column]
            if state_column
            else {name: value for name, value in cells.items() if name != id_column}
        )
        item = {"custom_id": custom_id, "state": state}
        yield json.dumps(item, ensure_ascii=False).encode() + b"\n"


def parse_mapping(pairs: list[str]) -> dict[str, str]:
    """`custom_id=COLUMN` and `state=COLUMN`. Raises ValueError for others."""
    mapping = {}
    for pair in pairs:
        field, found, column = pair.partition("=")
        if not found or field not in ("custom_id", "state"):
            raise ValueError(f"--column {pair}: must be custom_id=NAME or state=NAME")
        mapping[field] = column
    return mapping
