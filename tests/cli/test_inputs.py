"""What `submit` reads: JSON Lines untouched, CSV by its columns, question files."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.inputs import csv_items, json_lines, load_questions, parse_mapping


def rows(content: bytes, mapping: dict[str, str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in csv_items(io.BytesIO(content), mapping)]


def test_a_csv_row_becomes_an_item_by_its_columns() -> None:
    content = b'id,body,tier\r\n7,"two\nlines, one cell",gold\r\n'
    assert rows(content, {"custom_id": "id", "state": "body"}) == [
        {"custom_id": "7", "state": "two\nlines, one cell"}
    ]


def test_without_a_state_column_the_row_is_the_state() -> None:
    content = "\ufeffid,body,tier\n7,Größe?,gold\n".encode()
    assert rows(content, {"custom_id": "id"}) == [
        {"custom_id": "7", "state": {"body": "Größe?", "tier": "gold"}}
    ]


def test_without_an_id_column_an_item_is_called_by_its_row() -> None:
    assert [r["custom_id"] for r in rows(b"body\na\nb\n", {"state": "body"})] == ["row-1", "row-2"]


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no column 'text'; it has id, body"):
        rows(b"id,body\n1,x\n", {"state": "text"})


def test_a_mapping_names_custom_id_or_state() -> None:
    assert parse_mapping(["state=the=body"]) == {"state": "the=body"}
    with pytest.raises(ValueError, match="must be custom_id=NAME or state=NAME"):
        parse_mapping(["body"])


def test_json_lines_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{bad\r\n")
    with json_lines(str(path), {}, as_csv=False) as sent:
        assert sent == path


def test_stdin_is_read_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    content = '{"custom_id": "a", "state": "\u2028"}\n'.encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    with json_lines("-", {}, as_csv=False) as sent:
        assert sent.read_bytes() == content
    assert not sent.exists()


@pytest.mark.parametrize("as_csv", [False, True])
def test_a_file_that_is_not_there_is_named(as_csv: bool) -> None:
    missing = json_lines("nowhere.jsonl", {}, as_csv=as_csv)
    with pytest.raises(ValueError, match=r"nowhere\.jsonl: no such file"):
        missing.__enter__()


def test_questions_come_alone_or_under_their_name(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("urgent: {type: noul}\n")
    assert load_questions(path) == {"questions": {"urgent": {"type": "noul"}}}
    path.write_text("questions: {urgent: {type: noul}}\ninstructions: Be brief.\n")
    assert load_questions(path)["instructions"] == "Be brief."


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: [", "not valid YAML or JSON"),
        ("- a", "must map `questions` to questions"),
        ("questions: {}\nquestion: x", "unknown field\\(s\\) \\['question'\\]"),
    ],
)
def test_a_question_file_that_is_wrong_says_how(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "q.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=problem):
        load_questions(path)
