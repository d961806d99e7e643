"""Cases to packed token trees: every question of a state hangs on the state's tokens, which are there once.

    head      the template's words before the state, the same for every case, so packed once for all
    ids       [prefix | suffix 1 | suffix 2 | ...]
    position  H..H+S-1, then H+S..H+S+L1-1, H+S..H+S+L2-1, ... : each suffix continues the prefix
    visible   causal within the prefix and within a suffix; a suffix sees head, prefix and itself, no other suffix

The prefix is the longest common prefix of the questions' whole tokenised prompts, so what a suffix sees is token for
token the prompt that the service reads. Knows the tokenizer, no weights.
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from training.prompts import NONE, Case, Question, option_lines, user_turn


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One packed case; N tokens, Q questions, M options in all."""

    head: torch.Tensor  #: [H] int64, the very same object in all trees of a packer
    ids: torch.Tensor  #: [N] int64
    positions: torch.Tensor  #: [N] int64
    visible: torch.Tensor  #: [N, N] bool, row sees column
    reads: torch.Tensor  #: [Q] the token whose next-token scores answer question q
    targets: tuple[tuple[tuple[int, float], ...], ...]  #: per question (token id, probability)
    marks: torch.Tensor  #: [M] the last token of each option's line
    mark_targets: torch.Tensor  #: [M] float, how well that option fits
    questions: tuple[Question, ...]


class Packer:
    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._ids: dict[str, int] = {}
        probes = [self._ids_of(text) for text in ("a", "B.", "7", '{"')]
        self.head = torch.tensor(probes[0][: _common_prefix(probes)])

    def label_id(self, label: str) -> int:
        if label not in self._ids:
            ids = self.tokenizer.encode(label, add_special_tokens=False)
            if len(ids) != 1:
                raise ValueError(f"{label!r} is {len(ids)} tokens, not one")
            self._ids[label] = ids[0]
        return self._ids[label]

    def _text_of(self, user: str) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": user}], tokenize=False, add_generation_prompt=True
            )
        )

    def _ids_of(self, user: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(self._text_of(user), add_special_tokens=False)
        return ids

    def prompt(self, case: Case, question: Question) -> tuple[list[int], list[int]]:
        """Token ids of the whole prompt and the index of each option line's last token."""
        text = self._text_of(user_turn(case.state, question))
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        lines = option_lines(question)
        at = text.rindex("\n".join(lines)) - 1
        marks = []
        for line in lines:
            at += len(line) + 1  # the newline that ends this line
            marks.append(next(i for i, (a, b) in enumerate(offsets) if a <= at < b))
        return ids, marks

    def tree(self, case: Case) -> Tree:
        whole_prompts = [self.prompt(case, q) for q in case.questions]
        skip = len(self.head)
        if any(ids[:skip] != self.head.tolist() for ids, _ in whole_prompts):
            raise ValueError("the state changes the tokens before it")
        prompts = [(ids[skip:], [m - skip for m in marks]) for ids, marks in whole_prompts]
        shared = _common_prefix([ids for ids, _ in prompts])
        total = shared + sum(len(ids) - shared for ids, _ in prompts)
        ids = list(prompts[0][0][:shared])
        positions = list(range(shared))
        visible = torch.ones(total, total, dtype=torch.bool).tril_()
        reads, marks = [], []
        for whole, at in prompts:
            start = len(ids)
            ids += whole[shared:]
            positions += range(shared, len(whole))
            visible[start : len(ids), shared:start] = False
            reads.append(len(ids) - 1)
            marks += [start + m - shared for m in at]
        return Tree(
            head=self.head,
            ids=torch.tensor(ids),
            positions=torch.tensor(positions) + skip,
            visible=visible,
            reads=torch.tensor(reads),
            targets=tuple(self._target(q) for q in case.questions),
            marks=torch.tensor(marks),
            mark_targets=torch.tensor([_mark(q, p) for q in case.questions for p in q.target]),
            questions=case.questions,
        )

    def _target(self, question: Question) -> tuple[tuple[int, float], ...]:
        pairs = [
            (self.label_id(label), question.fits * p)
            for label, p in zip(question.labels, question.target, strict=True)
        ]
        return (*pairs, (self.label_id(NONE), 1.0 - question.fits))


def _mark(question: Question, p: float) -> float:
    return p / max(question.target) if question.fits > 0.5 else 0.0


def _common_prefix(prompts: list[list[int]]) -> int:
    shortest = min(len(p) for p in prompts)
    first = prompts[0]
    n = next((i for i in range(shortest) if any(p[i] != first[i] for p in prompts)), shortest)
    return min(n, shortest - 1)
