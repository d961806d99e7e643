"""tool-eval-bench's 400 Typed Decisions cases: every one is answered."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.client import Address


@pytest.mark.slow
def test_all_cases_are_answered(server: Address, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = str(Path(sys.executable).with_name("tool-eval-bench"))
    command = [program, "--base-url", server.url, "--api-key", str(server.api_key)]
    command += ["--model", "default", "--decision-bench-only", "--no-live"]
    command += ["--json-file", str(report), "--output-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout[-4000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(report.read_text())
    assert found, done.stdout[-4000:]
