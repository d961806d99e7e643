"""A packed tree is the service's prompts, token for token, and reads as each whole prompt alone."""

import random
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from decisions import types as domain
from engine.models import ModelFolder
from training.bank import load
from training.messages import Messages
from training.packing import Packer, Tree
from training.prompts import Case, Question
from training.student import Student
from workers.prompts import Prompter


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    messages, rng = Messages(load(held=True)), random.Random(5)  # noqa: S311
    odd = Case(
        state={"größe": ["3", None], "text": " \n naïve 你好 "},
        questions=messages.case(rng).questions,
    )
    return [odd, *(messages.case(rng) for _ in range(12))]


def asked(question: Question) -> domain.Question:
    options = zip(question.options, question.descriptions, strict=True)
    return domain.Question(
        id="q",
        type=domain.QuestionType(question.kind),
        instructions=question.instructions,
        options=tuple(domain.Option(name=name, description=text) for name, text in options),
    )


def paths(tree: Tree) -> list[list[int]]:
    """The tokens that each read can see, in order of position: head, prefix, its own suffix."""
    found = []
    for read in tree.reads.tolist():
        seen = tree.visible[read].nonzero().squeeze(1)
        assert tree.positions[seen].tolist() == list(
            range(len(tree.head), len(tree.head) + len(seen))
        )
        found.append([*tree.head.tolist(), *tree.ids[seen].tolist()])
    return found


def test_what_a_read_sees_is_the_prompt_that_the_service_reads(
    packer: Packer, tokenizer: Any, cases: list[Case]
) -> None:
    prompter = Prompter(tokenizer, "default")
    for case in cases:
        state: Any = case.state
        expected = [prompter.whole_prompt(state, None, asked(q)) for q in case.questions]
        assert paths(packer.tree(case)) == expected


def test_targets_are_on_the_labels_that_the_service_reads(
    packer: Packer, tokenizer: Any, cases: list[Case]
) -> None:
    prompter = Prompter(tokenizer, "default")
    for case in cases:
        for question, target in zip(case.questions, packer.tree(case).targets, strict=True):
            assert tuple(i for i, _ in target[:-1]) == prompter.label_ids(asked(question))
            assert sum(p for _, p in target) == pytest.approx(1.0)


def test_each_option_is_marked_at_the_end_of_its_line(
    packer: Packer, tokenizer: Any, cases: list[Case]
) -> None:
    for case in cases:
        tree = packer.tree(case)
        names = [
            (o, d) for q in case.questions for o, d in zip(q.options, q.descriptions, strict=True)
        ]
        for mark, (name, text) in zip(tree.marks.tolist(), names, strict=True):
            shown = tokenizer.decode(tree.ids[tree.visible[mark]])
            assert shown.endswith("\n")
            assert shown.rstrip("\n").endswith(text or name)


def test_packed_reads_equal_each_whole_prompt_alone(
    packer: Packer, base_model: ModelFolder, cases: list[Case]
) -> None:
    trees = [packer.tree(case) for case in cases[:3]]
    model = AutoModelForCausalLM.from_pretrained(base_model.path, dtype=torch.float32)
    with torch.no_grad():
        packed = Student(base_model.path, dtype=torch.float32)(trees)[0].softmax(-1)
        plain = [
            model(input_ids=torch.tensor([ids]), logits_to_keep=1).logits[0, -1].softmax(-1)
            for tree in trees
            for ids in paths(tree)
        ]
    assert torch.allclose(packed, torch.stack(plain), atol=1e-4)
