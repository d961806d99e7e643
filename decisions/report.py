"""A run's report: what the comparison found, and a verdict against the thresholds that the schedule names.

Promoted is what reaches every threshold for every question; whatever else is held, with the reasons.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from decisions import comparison
from decisions.drift import psi
from decisions.schedules import Change, Thresholds, plan_of
from decisions.types import Verdict

#: Different answers of one question that a report lists; the flips themselves are all there.
SHOWN_CHANGES = 100


def make(connection: Connection, run: Any) -> dict[str, Any]:
    """Of a run whose batch is final. JSON."""
    for statement in comparison.prepare(run.batch_id):
        connection.execute(statement)
    questions = _questions(connection)
    unanswered = connection.execute(comparison.unanswered(run.batch_id)).all()
    compared = sum(q["compared"] for q in questions)
    flips = sum(q["flips"] for q in questions)
    found = {
        "compared": compared,
        "unanswered": {row.why: row.count for row in unanswered},
        "flips": flips,
        "agreement": _share(compared - flips, compared),
        "truth": _total([q["truth"] for q in questions]),
        "models": _models(connection),
        "questions": questions,
    }
    plan = plan_of(run)
    reasons = list(judge(found, plan.thresholds, plan.change))
    verdict = Verdict.HOLD if reasons else Verdict.PROMOTE
    return {"verdict": verdict, "reasons": reasons, **found}


def _questions(connection: Connection) -> list[dict[str, Any]]:
    changes = _by_question(connection.execute(comparison.changes()).all())
    truths = {row.question_id: row for row in connection.execute(comparison.truths())}
    drift = _by_question(connection.execute(comparison.distributions()).all())
    return [
        {
            "question": question,
            "type": rows[0].type,
            **_agreement(rows),
            "truth": _truth(truths.get(question)),
            "drift": [_drift(row) for row in drift[question]],
        }
        for question, rows in changes.items()
    ]


def _by_question(rows: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.question_id, []).append(row)
    return found


def _agreement(rows: Sequence[Any]) -> dict[str, Any]:
    compared = sum(row.count for row in rows)
    flipped = [row for row in rows if row.before != row.after]
    flips = sum(row.count for row in flipped)
    return {
        "compared": compared,
        "flips": flips,
        "agreement": _share(compared - flips, compared),
        "changes": [
            {"before": row.before, "after": row.after, "count": row.count}
            for row in flipped[:SHOWN_CHANGES]
        ],
    }


def _truth(row: Any) -> dict[str, Any]:
    names = ("count", "right_before", "right_after", "fixed", "broken")
    return _shares({name: getattr(row, name) if row else 0 for name in names})


def _total(truths: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("count", "right_before", "right_after", "fixed", "broken")
    return _shares({name: sum(truth[name] for truth in truths) for name in names})


def _shares(counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        **counts,
        "accuracy_before": _share(counts["right_before"], counts["count"]),
        "accuracy_after": _share(counts["right_after"], counts["count"]),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _drift(row: Any) -> dict[str, Any]:
    """Edges are null when there is nothing before that could be cut into bins."""
    bins = range(len(row.edges or ()) + 1)
    before, after = (
        [(side or {}).get(str(n), 0) for n in bins] for side in (row.before, row.after)
    )
    both = row.mean_before is not None and row.mean_after is not None
    return {
        "of": row.kind,
        **({"option": row.option} if row.kind == "probability" else {}),
        "mean_before": row.mean_before,
        "mean_after": row.mean_after,
        "shift": row.mean_after - row.mean_before if both else None,
        "psi": psi(before, after),
        "edges": row.edges,
        "before": before,
        "after": after,
    }


def _models(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    rows = connection.execute(comparison.versions()).all()
    names = ("model", "revision", "kv_format", "dtype", "device", "decisions")
    return {
        side: [{n: getattr(row, n) for n in names} for row in rows if row.late == late]
        for side, late in (("before", False), ("after", True))
    }


def judge(found: Mapping[str, Any], asked: Thresholds, change: Change) -> Iterator[str]:
    """Why it is held; nothing when it is to be promoted."""
    if not found["compared"]:
        yield "nothing was answered that could be compared"
        return
    if not asked.named:
        yield "the schedule names no threshold"
    yield from _unanswered(found, asked)
    yield from _read_by_others(found, change)
    for question in found["questions"]:
        for reason in _question_reasons(question, asked):
            yield f"question {question['question']!r}: {reason}"


def _unanswered(found: Mapping[str, Any], asked: Thresholds) -> Iterator[str]:
    missing = sum(found["unanswered"].values())
    share = found["compared"] / (found["compared"] + missing)
    if share < asked.answered:
        why = ", ".join(f"{count} {code}" for code, count in found["unanswered"].items())
        yield f"{share:.4f} of the items have an answer, below {asked.answered} ({why})"


def _read_by_others(found: Mapping[str, Any], change: Change) -> Iterator[str]:
    for name in ("model", "kv_format"):
        wanted = getattr(change, name)
        others = [v for v in found["models"]["after"] if wanted not in (None, v[name])]
        if others:
            count = sum(v["decisions"] for v in others)
            known = ", ".join(sorted({v[name] for v in others}))
            yield f"{count} decisions were read with {name} {known}, not {wanted}"


def _question_reasons(question: Mapping[str, Any], asked: Thresholds) -> Iterator[str]:
    if asked.agreement is not None and question["agreement"] < asked.agreement:
        yield f"agreement {question['agreement']:.4f} is below {asked.agreement}"
    yield from _accuracy_reasons(question["truth"], asked)
    for drift in question["drift"]:
        yield from _drift_reasons(drift, asked)


def _accuracy_reasons(truth: Mapping[str, Any], asked: Thresholds) -> Iterator[str]:
    if asked.accuracy_drop is None:
        return
    if truth["count"] < asked.truths:
        more = asked.truths - truth["count"]
        yield f"{truth['count']} decisions have truth, {more} more are needed"
        return
    drop = (truth["right_before"] - truth["right_after"]) / truth["count"]
    if drop > asked.accuracy_drop:
        yield (
            f"agreement with truth fell from {truth['right_before']} to {truth['right_after']}"
            f" of {truth['count']}, more than {asked.accuracy_drop}"
        )


def _drift_reasons(drift: Mapping[str, Any], asked: Thresholds) -> Iterator[str]:
    what = f"probability of {drift['option']!r}" if "option" in drift else drift["of"]
    judged = drift["of"] in ("label_mass", "probability")
    if asked.psi is not None and judged and drift["psi"] is not None and drift["psi"] > asked.psi:
        yield f"PSI of {what} {drift['psi']:.4f} is above {asked.psi}"
    if asked.label_mass_drop is not None and drift["of"] == "label_mass":
        drop = -drift["shift"]
        if drop > asked.label_mass_drop:
            yield f"mean label mass fell by {drop:.4f}, more than {asked.label_mass_drop}"
