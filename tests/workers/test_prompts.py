"""Prefix + suffix must be the whole prompt, to the token, whatever stands at the seam."""

import random
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast as Untyped

from decisions.questions import parse_question_set
from decisions.types import Json
from workers.prompts import Prompter, UnreadableLabels, UnusableTemplate

PreTrainedTokenizerFast: Any = Untyped

QUESTIONS = parse_question_set(
    {
        "team": {
            "type": "choice",
            "instructions": "Which team?",
            "criteria": {"billing": "payments", "shipping": None},
        },
        "urgent": {"type": "noul", "instructions": "  urgent?", "criteria": {"true": "money"}},
        "bare": {"type": "noul"},
        "tone": {"type": "score", "criteria": ["calm", "angry", "furious"]},
    }
).questions

HARD_STATES: list[Json] = [
    "",
    " ",
    "\n\n",
    "ends with a line \n",
    "trailing blanks   ",
    "tab\t",
    "\r\n",
    "\u2028 and \u0085",
    "日本語 🎉",
    "🎉",
    "a" * 400,
    "<|im_end|>",
    "code {\n}\n\n",
    {"subject": "é", "tags": ["a", None, 1.5]},
    5,
    None,
]


def random_states(seed: int, count: int) -> list[Json]:
    draw = random.Random(seed)  # noqa: S311 - test data
    pieces = [*" \n\t\r.aAbz1é🎉\u2028\"'{}", "word", "ing", " the", "\n\n", "Question"]
    return ["".join(draw.choices(pieces, k=draw.randint(0, 40))) for _ in range(count)]


@pytest.mark.parametrize("instructions", [None, "Be brief."])
def test_prefix_and_suffix_are_the_whole_prompt_to_the_token(
    prompter: Prompter, instructions: str | None
) -> None:
    for state in [*HARD_STATES, *random_states(3, 300)]:
        group = prompter.group(state, instructions, QUESTIONS)
        for question, suffix in zip(QUESTIONS, group.suffixes, strict=True):
            whole = prompter.whole_prompt(state, instructions, question)
            assert list(group.prefix_ids + suffix.token_ids) == whole


def test_the_state_is_tokenised_once_however_many_questions_ask(
    prompter: Prompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "The parcel has not come. " * 400
    lengths: list[int] = []
    counted = prompter._encode_all

    def count(texts: list[str]) -> Any:
        lengths.extend(map(len, texts))
        return counted(texts)

    monkeypatch.setattr(prompter, "_encode_all", count)
    prompter.group(state, None, QUESTIONS)
    assert len(lengths) == len(QUESTIONS)
    assert max(lengths) < 400


def test_questions_of_one_state_share_its_prefix(prompter: Prompter) -> None:
    one = prompter.group("My parcel is late.", None, QUESTIONS[:1])
    other = prompter.group("My parcel is late.", None, QUESTIONS[1:])
    assert one.prefix_ids == other.prefix_ids


def test_labels_are_in_option_order(prompter: Prompter, tokenizer: Any) -> None:
    ids = [prompter.label_ids(question) for question in QUESTIONS]
    texts = [[tokenizer.decode([i]) for i in row] for row in ids]
    assert texts == [["A", "B"], ["yes", "no"], ["yes", "no"], ["0", "1", "2"]]


def rewritten(tokenizer: Any, template: str | None) -> Any:
    other = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    other.chat_template = template
    return other


TRIMMING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)


def test_a_template_that_trims_is_followed_to_the_token(tokenizer: Any) -> None:
    prompter = Prompter(rewritten(tokenizer, TRIMMING), "trimming")
    for state in [*HARD_STATES, *random_states(4, 100)]:
        group = prompter.group(state, None, QUESTIONS)
        for question, suffix in zip(QUESTIONS, group.suffixes, strict=True):
            whole = prompter.whole_prompt(state, None, question)
            assert list(group.prefix_ids + suffix.token_ids) == whole


def test_a_seam_that_merges_is_cut_elsewhere(tokenizer: Any) -> None:
    """Without a pre-tokeniser, merges reach across the seam; the prompts are then tokenised whole."""
    alphabet = sorted({chr(c) for c in range(32, 127)} | set("\n\u00e9"))
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = [("\n", "\n"), ("x", "\n\n"), ("x\n\n", "Q")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    text = Tokenizer(BPE(vocab=vocab, merges=merges))
    plain = PreTrainedTokenizerFast(tokenizer_object=text)
    plain.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}\nReply:"
    prompter = Prompter.__new__(Prompter)
    # The labels of this toy are not single tokens, so its parts are set by hand.
    prompter._tokenizer, prompter._model, prompter._text = plain, "toy", text
    prompter._frame = prompter._render_frame  # type: ignore[assignment]
    prompter._strips, prompter._label_ids = (
        False,
        dict.fromkeys(("A", "B", "yes", "no", *"0123456789"), 0),
    )
    for state in ("box", "x", "no seam", "xx"):
        group = prompter.group(state, None, QUESTIONS)
        for question, suffix in zip(QUESTIONS, group.suffixes, strict=True):
            whole = prompter.whole_prompt(state, None, question)
            assert list(group.prefix_ids + suffix.token_ids) == whole


def test_a_model_without_a_template_is_refused_by_name(tokenizer: Any) -> None:
    with pytest.raises(UnusableTemplate, match="nameless has no chat template"):
        Prompter(rewritten(tokenizer, None), "nameless")


def test_a_template_that_rewrites_messages_is_refused(tokenizer: Any) -> None:
    template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    with pytest.raises(UnusableTemplate, match="rewrites"):
        Prompter(rewritten(tokenizer, template), "loud")


def test_a_label_that_is_not_one_token_is_refused_by_name(tokenizer: Any) -> None:
    """After `ye`, the label `yes` merges with the prompt instead of standing alone."""
    template = "{% for m in messages %}{{ m.content }}{% endfor %} A"
    with pytest.raises(UnreadableLabels, match="is not one token"):
        Prompter(rewritten(tokenizer, template), "merging")
