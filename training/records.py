"""Structured states (invoices, agent runs, alerts, orders, sensor readings) whose answers follow from their fields.

Knows the rules it draws from, nothing of the other generators. Evaluation sets of the same kinds of record exist; none of
their texts, fields or questions were used here.
"""

import random
from collections.abc import Callable

from training.prompts import Case, Question
from training.shapes import choice, noul, score

Ask = Callable[[random.Random], Question]
FIRMS = (
    "Orbit Ltd",
    "Kranich AG",
    "Bluewater Inc",
    "Mesa Foods",
    "Tallow & Sons",
    "Nordlys AS",
    "Pico GmbH",
    "Vela SpA",
)
PEOPLE = ("Ines", "Tom", "Yuki", "Omar", "Lea", "Ivan", "Sara", "Ben", "Rosa", "Kofi")
TOOLS = (
    "search",
    "calculator",
    "read_file",
    "send_mail",
    "book_room",
    "run_query",
    "translate",
    "web_fetch",
)
HOSTS = ("db-1", "web-7", "mail-2", "build-4", "vpn-3", "desk-19")


def case(rng: random.Random) -> Case:
    fields, asks = rng.choice((_invoice, _agent_run, _alert, _order, _reading, _candidate))(rng)
    rng.shuffle(asks)
    state = "\n".join(f"{k}: {v}" for k, v in fields.items()) if rng.random() < 0.25 else fields
    return Case(
        state=state, questions=tuple(a(rng) for a in asks[: rng.randint(2, 4)]), source="records"
    )


def _invoice(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    ordered = rng.choice((50, 120, 400, 990, 2500))
    same = rng.random() < 0.5
    billed = ordered if same else ordered + rng.choice((-20, 15, 80, 300))
    reference = rng.random() < 0.6
    overdue = rng.choice((0, 0, 3, 20, 45))
    firm = rng.choice(FIRMS)
    state: dict[str, object] = {
        "vendor": firm, "ordered_amount": ordered, "billed_amount": billed,
        "order_number": f"PO-{rng.randrange(1000, 9999)}" if reference else None,
        "days_overdue": overdue, "bank_account_changed": rng.random() < 0.3,
    }  # fmt: skip
    changed = bool(state["bank_account_changed"])
    act = 2 if changed else 0 if same and reference else 1
    options = (
        ("pay", "amounts agree, order number present, known bank account"),
        ("ask the vendor", "amounts differ or the order number is missing"),
        ("check for fraud", "the bank account was changed"),
    )
    return state, [
        lambda r: noul(
            r,
            "Do the billed and the ordered amount agree?",
            r.choice(((None, None), ("same amount", "different amounts"))),
            same,
        ),
        lambda r: _given(r, "order number", reference),
        lambda r: noul(
            r,
            "Is the invoice overdue?",
            r.choice(((None, None), ("past the due date", "not yet due"))),
            overdue > 0,
        ),
        lambda r: noul(r, "Has the bank account changed?", (None, None), changed),
        lambda r: choice(r, "What should be done?", options, act),
        lambda r: _pick(r, "Who sent the invoice?", FIRMS, firm),
        lambda r: score(
            "How late is the payment?",
            ("not late", "some days", "weeks", "more than a month"),
            _hot(4, (0, 3, 20, 45).index(overdue)),
        ),
    ]


def _agent_run(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    used = rng.sample(TOOLS, rng.randint(1, 4))
    failed = rng.choice(used) if rng.random() < 0.5 else None
    ended = rng.choice(("answered", "answered", "gave up", "timed out"))
    steps = [{"tool": t, "status": "error" if t == failed else "ok"} for t in used]
    state: dict[str, object] = {
        "goal": rng.choice(
            ("find a hotel", "sum the sales", "write to the client", "summarise the file")
        ),
        "steps": steps,
        "end": ended,
    }
    return state, [
        lambda r: noul(
            r,
            "Did a tool call fail?",
            r.choice(((None, None), ("a step has an error", "all steps are ok"))),
            failed is not None,
        ),
        lambda r: noul(r, "Did the agent reach an answer?", (None, None), ended == "answered"),
        lambda r: choice(
            r,
            "How did the run end?",
            [(e, None) for e in dict.fromkeys((ended, "answered", "gave up", "timed out"))],
            0,
        ),
        lambda r: _pick(r, "Which tool was called first?", TOOLS, used[0]),
        lambda r: _pick(r, "Which tool failed?", TOOLS, failed) if failed else _used(r, used),
        lambda r: _used(r, used),
        lambda r: score(
            "How many steps were taken?",
            ("none", "one", "two", "three", "four"),
            _hot(5, len(used)),
        ),
    ]


def _alert(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    host, person = rng.choice(HOSTS), rng.choice(PEOPLE)
    failures = rng.choice((0, 2, 40, 900))
    known = rng.random() < 0.5
    ran = rng.random() < 0.4
    state: dict[str, object] = {
        "host": host, "user": person, "failed_logins": failures, "source_known": known,
        "malware_found": ran, "time": rng.choice(("09:40", "14:05", "03:12", "23:50")),
    }  # fmt: skip
    level = (
        3 if ran else 2 if failures > 10 and not known else 1 if failures > 10 or not known else 0
    )
    return state, [
        lambda r: noul(r, "Was malware found?", (None, None), ran),
        lambda r: noul(
            r,
            "Does the source look known?",
            r.choice(((None, None), ("the source is known", "unknown source"))),
            known,
        ),
        lambda r: noul(
            r, "Were there many failed logins?", ("dozens or more", "few or none"), failures > 10
        ),
        lambda r: score(
            "How severe is the alert?",
            ("harmless", "low", "high", "critical"),
            [0.85 if i == level else 0.05 for i in range(4)],
        ),
        lambda r: _pick(r, "Which host is it?", HOSTS, host),
        lambda r: choice(
            r,
            "What next?",
            (
                ("isolate the host", "malware was found"),
                ("lock the account", "many failed logins from an unknown source"),
                ("close the alert", "nothing of both"),
            ),
            0 if ran else 1 if level == 2 else 2,
        ),
    ]


def _order(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    status = rng.choice(("paid", "packed", "shipped", "delivered", "returned", "cancelled"))
    person, country = (
        rng.choice(PEOPLE),
        rng.choice(("France", "Japan", "Chile", "Kenya", "Norway")),
    )
    gift, items = rng.random() < 0.5, rng.randint(1, 5)
    state: dict[str, object] = {
        "customer": person,
        "country": country,
        "status": status,
        "items": items,
        "gift_wrap": gift,
    }
    return state, [
        lambda r: _pick(
            r,
            "What is the status?",
            ("paid", "packed", "shipped", "delivered", "returned", "cancelled"),
            status,
        ),
        lambda r: noul(
            r,
            "Has the parcel arrived?",
            ("it was delivered", "it has not arrived"),
            status in ("delivered", "returned"),
        ),
        lambda r: noul(r, "Is it a gift?", (None, None), gift),
        lambda r: _pick(
            r, "Where does it go?", ("France", "Japan", "Chile", "Kenya", "Norway"), country
        ),
        lambda r: noul(r, "Is more than one item ordered?", (None, None), items > 1),
        lambda r: score(
            "How many items?", ("none", "one", "two", "three", "four", "five"), _hot(6, items)
        ),
        lambda r: noul(r, "Does the customer have a brother?", (None, None), None),
    ]


def _reading(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    place = rng.choice(("boiler", "freezer", "greenhouse", "server room", "cellar"))
    level = rng.choice(("very low", "low", "normal", "high", "very high"))
    door = rng.random() < 0.5
    state: dict[str, object] = {
        "sensor": place,
        "temperature": level,
        "door_open": door,
        "battery": rng.choice(("full", "half", "empty")),
    }
    order = ("very low", "low", "normal", "high", "very high")
    return state, [
        lambda r: noul(r, "Is the temperature normal?", (None, None), level == "normal"),
        lambda r: noul(r, "Is the door open?", (None, None), door),
        lambda r: noul(
            r,
            "Must the battery be changed?",
            ("battery empty", "battery has charge"),
            state["battery"] == "empty",
        ),
        lambda r: score(
            "How warm is it?",
            ("very cold", "cold", "normal", "warm", "very hot"),
            _hot(5, order.index(level)),
        ),
        lambda r: _pick(
            r,
            "Where is the sensor?",
            ("boiler", "freezer", "greenhouse", "server room", "cellar"),
            place,
        ),
        lambda r: noul(r, "Is it too hot?", (None, None), level in ("high", "very high")),
    ]


def _candidate(rng: random.Random) -> tuple[dict[str, object], list[Ask]]:
    job = rng.choice(("nurse", "welder", "teacher", "cook", "programmer", "driver"))
    years, licence = rng.choice((0, 1, 4, 12)), rng.random() < 0.5
    languages = rng.sample(("French", "Arabic", "Polish", "Hindi", "Greek"), rng.randint(1, 3))
    state: dict[str, object] = {
        "name": rng.choice(PEOPLE),
        "profession": job,
        "years": years,
        "driving_licence": licence,
        "languages": languages,
    }
    spoken = rng.choice(("French", "Arabic", "Polish", "Hindi", "Greek"))
    return state, [
        lambda r: _pick(
            r,
            "What does the candidate do?",
            ("nurse", "welder", "teacher", "cook", "programmer", "driver"),
            job,
        ),
        lambda r: noul(r, "May the candidate drive?", ("has a licence", "no licence"), licence),
        lambda r: noul(r, f"Does the candidate speak {spoken}?", (None, None), spoken in languages),
        lambda r: noul(
            r,
            "Is the candidate a beginner?",
            ("less than two years", "two years or more"),
            years < 2,
        ),
        lambda r: score(
            "How much experience?",
            ("none", "a year", "some years", "more than ten years"),
            _hot(4, (0, 1, 4, 12).index(years)),
        ),
        lambda r: noul(r, "Is the candidate married?", (None, None), None),
    ]


def _hot(n: int, at: int) -> list[float]:
    return [float(i == at) for i in range(n)]


def _given(rng: random.Random, name: str, given: bool) -> Question:
    if rng.random() < 0.5:
        return noul(rng, f"Is the {name} missing?", (None, None), not given)
    return noul(rng, f"Is there an {name}?", (f"an {name} is given", f"no {name}"), given)


def _used(rng: random.Random, used: list[str]) -> Question:
    true = rng.random() < 0.5
    tool = rng.choice(used if true else [t for t in TOOLS if t not in used])
    return noul(rng, f"Was the tool {tool} used?", (None, None), true)


def _pick(rng: random.Random, text: str, values: tuple[str, ...], right: str) -> Question:
    others = rng.sample([v for v in values if v != right], rng.randint(1, min(4, len(values) - 1)))
    return choice(rng, text, [(v, None) for v in (right, *others)], 0)
