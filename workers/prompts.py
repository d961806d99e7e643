"""From a state's and a question's text to tokens: prefix + suffix = the whole prompt, to the token.

A prompt is the model's chat template around `state, blank line, question block`. Tokenising it costs
S + N * L characters for a state of S and N questions of L: the first prompt is tokenised whole, the
others only from a little before the seam. Byte-pair merges can cross a seam, so every cut is checked:
the tokens of the overlap must come out the same; where they do not, the prompts are tokenised whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from decisions.prompts import LETTERS, PAIRS, SEPARATOR, labels, question_block, state_text
from decisions.types import Json, Question
from engine.types import Group, Suffix

#: Stands for the state while a template is rendered; a private-use character that no template touches.
_MARK = "\ue0b7"

#: Tokens before the seam that are tokenised again for every question, to check the cut.
_OVERLAP = 8

_ALL_LABELS = (*LETTERS, "yes", "no", *map(str, range(10)))


class UnreadableLabels(Exception):
    """A label is not one token of its own after this model's prompt, so options cannot be read by it."""


class UnusableTemplate(Exception):
    """The model's chat template is missing, or rewrites what it is given."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A question's prompt without the state: what stands before it and after it."""

    before: str
    after: str


class Prompter:
    """Tokenises for one model. Raises UnreadableLabels or UnusableTemplate when it cannot."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, model: str) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._text: Tokenizer = tokenizer.backend_tokenizer
        self._frame = lru_cache(maxsize=4096)(self._render_frame)
        self._strips = self._template_strips()
        self._label_ids = self._resolve_labels()
        #: Options of one choice that this model can tell apart.
        self.most_options = len(PAIRS) if PAIRS[-1] in self._label_ids else len(LETTERS)

    def group(self, state: Json, instructions: str | None, questions: Sequence[Question]) -> Group:
        """The prompts of all questions about a state; at least one question, suffixes in their order."""
        text = state_text(state)
        frames = [self._frame(instructions, question) for question in questions]
        if self._strips:
            text = text.lstrip()
        if self._strips and not text:
            # The template drops the blank line too, as nothing stands before it.
            prefix, suffixes = self._whole("", [_Frame(f.before, f.after.lstrip()) for f in frames])
        else:
            prefix, suffixes = self._split(text, frames)
        return Group(
            prefix_ids=prefix,
            suffixes=tuple(
                Suffix(token_ids=ids, label_ids=self.label_ids(question))
                for ids, question in zip(suffixes, questions, strict=True)
            ),
        )

    def label_ids(self, question: Question) -> tuple[int, ...]:
        return tuple(self._label_ids[label] for label in labels(question))

    def whole_prompt(self, state: Json, instructions: str | None, question: Question) -> list[int]:
        """The prompt rendered and tokenised in one go: what `group` must add up to."""
        content = state_text(state) + SEPARATOR + question_block(question)
        return self._ids(self._render(instructions, content))

    def _split(
        self, text: str, frames: Sequence[_Frame]
    ) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        head = frames[0].before + text
        first = self._encode(head + frames[0].after)
        cut = _boundary(first, len(head) + len(SEPARATOR))
        start = _boundary(first, first.offsets[cut - _OVERLAP][0]) if cut > _OVERLAP else 0
        window, overlap = head[first.offsets[start][0] :], first.ids[start:cut]
        suffixes = []
        for encoding in self._encode_all([window + frame.after for frame in frames]):
            if encoding.ids[: len(overlap)] != overlap or len(encoding.ids) == len(overlap):
                return self._whole(text, frames)
            suffixes.append(tuple(encoding.ids[len(overlap) :]))
        if first.ids[cut:] != list(suffixes[0]):
            return self._whole(text, frames)
        return tuple(first.ids[:cut]), suffixes

    def _whole(
        self, text: str, frames: Sequence[_Frame]
    ) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """Every prompt on its own, cut where the first difference is; N * (S + L) characters."""
        prompts = [self._ids(frame.before + text + frame.after) for frame in frames]
        shared = 0
        shortest = min(map(len, prompts))
        while shared < shortest - 1 and len({prompt[shared] for prompt in prompts}) == 1:
            shared += 1
        return tuple(prompts[0][:shared]), [tuple(prompt[shared:]) for prompt in prompts]

    def _render_frame(self, instructions: str | None, question: Question) -> _Frame:
        rendered = self._render(instructions, _MARK + SEPARATOR + question_block(question))
        before, _, after = rendered.partition(_MARK)
        return _Frame(before, after)

    def _render(self, instructions: str | None, content: str) -> str:
        messages = [{"role": "user", "content": content}]
        if instructions:
            messages.insert(0, {"role": "system", "content": instructions})
        rendered: Any = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return str(rendered)

    def _template_strips(self) -> bool:
        """Whether the template drops white space around a message, as Gemma's does."""
        if not self._tokenizer.chat_template:
            raise UnusableTemplate(f"{self._model} has no chat template")
        probe = " \n" + _MARK + "  {x} <b> \n."
        rendered = self._render(None, probe)
        if probe in rendered:
            return False
        if probe.strip() in rendered:
            return True
        raise UnusableTemplate(f"{self._model}'s chat template rewrites the text of a message")

    def _resolve_labels(self) -> dict[str, int]:
        """Every label's token. A model that reads no pairs of letters reads choices of letters only."""
        prompt = self._render(None, f"{_MARK}{SEPARATOR}Question: ?")
        before = self._ids(prompt)
        found = {label: self._label_id(label, prompt, before) for label in _ALL_LABELS}
        for label, id_ in found.items():
            if id_ is None:
                raise UnreadableLabels(
                    f"{self._model}: the label {label!r} is not one token after the prompt"
                )
        if len(set(found.values())) != len(found):
            raise UnreadableLabels(f"{self._model} reads two labels as the same token")
        pairs = {pair: self._label_id(pair, prompt, before) for pair in PAIRS}
        if None not in pairs.values() and len(set(pairs.values())) == len(pairs):
            found |= pairs
        return {label: id_ for label, id_ in found.items() if id_ is not None}

    def _label_id(self, label: str, prompt: str, before: list[int]) -> int | None:
        """The label's token, if it is one token after this prompt and leaves the prompt's as they are."""
        ids = self._ids(prompt + label)
        return ids[-1] if ids[:-1] == before else None

    def _encode(self, text: str) -> Encoding:
        return self._text.encode(text, add_special_tokens=False)

    def _encode_all(self, texts: list[str]) -> list[Encoding]:
        return self._text.encode_batch(texts, add_special_tokens=False)

    def _ids(self, text: str) -> list[int]:
        return list(self._encode(text).ids)


def _boundary(encoding: Encoding, position: int) -> int:
    """The last token index at or before the character `position` where no character is split."""
    offsets = encoding.offsets
    index = sum(end <= position for _, end in offsets)
    while index > 0 and (index == len(offsets) or offsets[index][0] < offsets[index - 1][1]):
        index -= 1
    return index
