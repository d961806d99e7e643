"""What the documents name must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_test_that_a_document_names_exists() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^(?:async )?def (test_\w+)", sources, re.M))
    for document in (ROOT / "docs").rglob("*.md"):
        named = set(re.findall(r"`(test_\w+)`", document.read_text()))
        assert named <= defined, (document.name, sorted(named - defined))


def test_every_file_that_a_document_links_to_exists() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), (document.name, target)
