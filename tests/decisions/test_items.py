"""Whatever stands on a line becomes an item: with a body, or with an error that names line and field."""

import json
from collections.abc import Iterator
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.bodies import system_one_body
from decisions.errors import InvalidItem
from decisions.items import MAX_MESSAGE, NewItem, check_item, read_item, too_long
from decisions.lines import split_lines
from decisions.strict_json import MAX_DEPTH, decode
from decisions.types import Json

URL = "/v1/systemone"
SHARED: dict[str, Json] = {"questions": {"q": {"type": "noul"}}}
MAX_LINE = 1 << 20


def read(raw: bytes, line: int = 7, shared: dict[str, Json] | None = None) -> NewItem:
    return read_item(raw, line, system_one_body(SHARED if shared is None else shared), URL)


def read_file(content: bytes) -> Iterator[NewItem]:
    parse = system_one_body(SHARED)
    for line in split_lines([content], MAX_LINE):
        if line.content is None:
            yield too_long(line.number, MAX_LINE)
        else:
            yield read_item(line.content, line.number, parse, URL)


def wire(**fields: Json) -> bytes:
    return json.dumps({"custom_id": "a", "state": "s", **fields}).encode()


def state(json_text: bytes) -> bytes:
    return b'{"custom_id":"a","state":' + json_text + b"}"


def text_of(item: NewItem) -> str:
    assert item.body is not None, item.error
    return item.body.state


def refusal(item: NewItem) -> tuple[str, str | None]:
    assert item.error is not None
    assert item.body is None
    assert item.error.line == item.line
    return item.error.code, item.error.param


BAD: dict[str, tuple[bytes, str, str | None]] = {
    "not JSON": (b"hello", "invalid_json", None),
    "half of an object": (b'{"custom_id":"a","state":', "invalid_json", None),
    "two objects": (wire() + wire(), "invalid_json", None),
    "a string": (b'"a"', "invalid_type", None),
    "an array": (b"[]", "invalid_type", None),
    "null": (b"null", "invalid_type", None),
    "a number": (b"7", "invalid_type", None),
    "no custom_id": (b'{"state":"s"}', "invalid_custom_id", "custom_id"),
    "an empty custom_id": (wire(custom_id=""), "invalid_custom_id", "custom_id"),
    "a custom_id of 257 characters": (wire(custom_id="x" * 257), "invalid_custom_id", "custom_id"),
    "a custom_id that is a number": (wire(custom_id=5), "invalid_custom_id", "custom_id"),
    "a custom_id that is null": (wire(custom_id=None), "invalid_custom_id", "custom_id"),
    "no state": (b'{"custom_id":"a"}', "missing_field", "state"),
    "an unknown field": (wire(stat="s"), "unknown_field", "stat"),
    "questions that are a list": (wire(questions=[]), "invalid_question", "questions"),
    "no questions in questions": (wire(questions={}), "invalid_question", "questions"),
    "a question of an unknown type": (
        wire(questions={"q": {"type": "foo"}}),
        "invalid_question",
        "questions.q.type",
    ),
    "instructions that are a list": (wire(instructions=[]), "invalid_question", "instructions"),
    "NaN": (state(b"NaN"), "invalid_json", None),
    "Infinity": (state(b"[-Infinity]"), "invalid_json", None),
    "1e400": (state(b'{"a":1e400}'), "invalid_json", None),
    "an integer of 5,000 digits": (state(b"7" * 5000), "invalid_json", None),
    "a lone high surrogate": (state(b'"\\ud83d"'), "invalid_json", None),
    "a lone high surrogate before text": (state(b'"\\ud83dx and more"'), "invalid_json", None),
    "a lone low surrogate": (state(b'"\\ude00"'), "invalid_json", None),
    "a lone surrogate in a key": (state(b'{"\\ud83d":1}'), "invalid_json", None),
    "a lone surrogate as UTF-8": (state(b'"\xed\xa0\xbd"'), "invalid_json", None),
    "bytes that are not UTF-8": (state(b'"\xff"'), "invalid_json", None),
    "UTF-16": ('{"custom_id":"a","state":"s"}'.encode("utf-16"), "invalid_json", None),
    "a raw NUL": (state(b'"a\0b"'), "invalid_json", None),
    "a raw control character": (state(b'"a\x01b"'), "invalid_json", None),
    "U+0000 in a state": (state(b'"a\\u0000b"'), "invalid_character", "state"),
    "U+0000 deep in a state": (
        state(b'{"a":[1,{"b":"\\u0000"}]}'),
        "invalid_character",
        "state.a.1.b",
    ),
    "U+0000 in a key": (state(b'{"a":{"\\u0000":1}}'), "invalid_character", "state.a"),
    "U+0000 in a key at the top": (
        b'{"custom_id":"a","state":"s","\\u0000":1}',
        "invalid_character",
        None,
    ),
    "U+0000 in a custom_id": (
        b'{"custom_id":"a\\u0000","state":"s"}',
        "invalid_character",
        "custom_id",
    ),
    "U+0000 in a question": (
        wire(questions={"q": {"type": "noul", "instructions": "\0"}}),
        "invalid_character",
        "questions.q.instructions",
    ),
    "257 levels": (state(b"[" * 256 + b"]" * 256), "too_deep", None),
    "100,000 levels": (state(b"[" * 100_000 + b"]" * 100_000), "too_deep", None),
    "100,000 levels of objects": (state(b'{"a":' * 100_000), "too_deep", None),
    "a body that is a string": (
        b'{"custom_id":"a","method":"POST","url":"/v1/systemone","body":"s"}',
        "invalid_type",
        "body",
    ),
    "a method that is not POST": (
        b'{"custom_id":"a","method":"GET","url":"/v1/systemone","body":{}}',
        "invalid_method",
        "method",
    ),
    "another endpoint": (
        b'{"custom_id":"a","method":"POST","url":"/v1/responses","body":{}}',
        "invalid_url",
        "url",
    ),
    "a body beside a state": (
        b'{"custom_id":"a","state":"s","body":{"state":"s"}}',
        "unknown_field",
        "state",
    ),
    "a body without state": (b'{"custom_id":"a","body":{}}', "missing_field", "state"),
}


@pytest.mark.parametrize(("raw", "code", "param"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_with_a_line_is_named(raw: bytes, code: str, param: str | None) -> None:
    assert refusal(read(raw)) == (code, param)


def test_every_bad_line_is_counted_and_spares_its_neighbours() -> None:
    raws = [raw for raw, _, _ in BAD.values() if b"\n" not in raw]
    good = [b'{"custom_id":"good-%d","state":"s"}' % i for i in range(len(raws) + 1)]
    content = b"\r\n\r\n".join(x for pair in zip(good, raws, strict=False) for x in pair)
    items = list(read_file(b"\xef\xbb\xbf" + content + b"\r\n\r\n" + good[-1]))
    assert [item.line for item in items] == list(range(1, 4 * len(raws) + 2, 2))
    assert [item.custom_id for item in items[0::2]] == [f"good-{i}" for i in range(len(good))]
    assert all(item.body for item in items[0::2])
    assert all(item.error and item.error.line == item.line for item in items[1::2])


def test_a_line_of_ten_megabytes_is_named_and_its_neighbours_are_read() -> None:
    long = state(b'"' + b"x" * 10_000_000 + b'"')
    first, second, third = read_file(b"\n".join([wire(), long, wire(custom_id="b")]))
    assert first.body
    assert third.body
    assert refusal(second) == ("line_too_long", None)
    assert second.line == 2
    assert second.error is not None
    assert str(MAX_LINE) in second.error.message


def test_an_error_keeps_the_custom_id_that_could_be_read() -> None:
    assert read(b'{"custom_id":"a"}').custom_id == "a"
    assert read(b'{"custom_id":"","state":"s"}').custom_id is None
    assert read(b"hello").custom_id is None


def test_a_message_quotes_no_more_than_a_little_of_a_long_input() -> None:
    for item in (
        read(wire(**{"k" * 100_000: 1})),
        read(wire(questions={"q" * 100_000: {"type": "t" * 100_000}})),
        read(b'{"custom_id":"a","state":{"' + b"k" * 100_000 + b'":"\\u0000"}}'),
    ):
        assert item.error is not None
        assert len(item.error.message) <= MAX_MESSAGE
        assert len(item.error.param or "") <= MAX_MESSAGE


def test_a_custom_id_may_have_256_characters_of_any_kind() -> None:
    name = "\U0001f600" * 255 + "\u2028"
    assert read(wire(custom_id=name)).custom_id == name


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (b'"a\xe2\x80\xa8b\xc2\x85"', '"a\u2028b\u0085"'),
        (b'"a\\u2028b"', '"a\u2028b"'),
        (b'"\\ud83d\\ude00"', '"\U0001f600"'),
        (b'"a\\\\u0000b"', '"a\\\\u0000b"'),
        (b"null", "null"),
        (b"false", "false"),
        (b'""', '""'),
        (b'{ "b" : 1 , "a" : [ 1.0 , 1e2 ] }', '{"b": 1, "a": [1.0, 100.0]}'),
        (b"18446744073709551617", "18446744073709551617"),
        (b"1" + b"0" * 300, "1" + "0" * 300),
    ],
)
def test_a_state_is_stored_as_the_json_that_it_is(written: bytes, stored: str) -> None:
    assert text_of(read(state(written))) == stored


def test_states_of_equal_text_have_one_hash() -> None:
    first, second, other = read(state(b'{"a":1}')), read(state(b'{ "a" : 1 }')), read(state(b"2"))
    assert first.body
    assert second.body
    assert other.body
    assert first.body.state_hash == second.body.state_hash == sha256(b'{"a": 1}').digest()
    assert first.body.state_hash != other.body.state_hash


def test_an_item_takes_what_it_does_not_say_from_its_batch() -> None:
    shared: dict[str, Json] = {**SHARED, "instructions": "Be brief."}
    own: Json = {"mine": {"type": "noul"}}
    plain, instructed, asked = (
        read(raw, shared=shared)
        for raw in (wire(), wire(instructions="Be long."), wire(questions=own))
    )
    sets = [json.loads(item.body.question_set) for item in (plain, instructed, asked) if item.body]
    assert [s["instructions"] for s in sets] == ["Be brief.", "Be long.", "Be brief."]
    assert [s["questions"][0]["id"] for s in sets] == ["q", "q", "mine"]


def test_without_shared_questions_an_item_needs_its_own() -> None:
    assert refusal(read(wire(), shared={})) == ("missing_field", "questions")
    assert read(wire(questions={"q": {"type": "noul"}}), shared={}).body


def test_shared_questions_that_are_wrong_are_each_items_error() -> None:
    shared: dict[str, Json] = {"questions": {"q": {"type": "foo"}}}
    for _ in range(2):
        assert refusal(read(wire(), shared=shared)) == ("invalid_question", "questions.q.type")


def test_openais_batch_line_is_read_too() -> None:
    ours = read(wire())
    line = b'{"custom_id":"a","method":"POST","url":"/v1/systemone","body":{"state":"s"}}'
    assert read(line) == ours
    assert read(b'{"custom_id":"a","body":{"state":"s"}}') == ours


def test_depth_is_measured_in_objects_and_arrays_and_not_in_brackets() -> None:
    assert decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert decode(b'["' + b"[" * 1000 + b'"]') == ["[" * 1000]
    assert decode(b"[" + b",".join([b"[]"] * 1000) + b"]") == [[]] * 1000
    with pytest.raises(InvalidItem):
        decode(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_the_deepest_state_is_read_even_by_a_caller_who_is_deep_himself() -> None:
    def called(depth: int) -> str:
        return called(depth - 1) if depth else text_of(read(state(b"[" * 250 + b"]" * 250)))

    assert called(400) == "[" * 250 + "]" * 250


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


@given(values)
def test_any_json_is_a_state_and_comes_back_equal(value: Json) -> None:
    raw = json.dumps({"custom_id": "a", "state": value}).encode()
    assert json.loads(text_of(read(raw))) == value
    assert text_of(read(raw)) == text_of(read(state(text_of(read(raw)).encode())))


@given(values)
def test_any_json_is_an_item_or_an_error(value: Json) -> None:
    item = check_item(value, 3, system_one_body(SHARED), URL, search_nul=True)
    assert (item.body is None) == (item.error is not None)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_item_or_an_error(raw: bytes) -> None:
    item = read(raw)
    assert (item.body is None) == (item.error is not None)


@given(st.text(max_size=20))
def test_a_text_that_could_not_be_stored_is_refused(text: str) -> None:
    """Postgres holds any text but U+0000, and a lone surrogate is no UTF-8 at all."""
    item = read(json.dumps({"custom_id": "a", "state": text}).encode())
    storable = "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
    assert (item.body is not None) == storable
    if item.body:
        assert msgspec.json.decode(item.body.state) == text
