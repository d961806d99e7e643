"""tool-eval-bench's 400 Typed Decisions cases: every one is answered."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.client import Address


@pytest.mark.slow
def test_all_cases_are_answered(server: Address, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("tool-eval-bench"))
    command = [program, "--base-url", server.url, "--api-key", str(server.api_key)]
    command += ["--model", "default", "--decision-bench-only", "--no-live"]
    command += ["--output-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    reports = list(tmp_path.rglob("*.md"))
    assert reports, done.stdout[-4000:] + done.stderr[-4000:]
    (report,) = (path.read_text() for path in reports)
    assert "400 cases" in report
    assert "(0 decision errors)" in report, report
