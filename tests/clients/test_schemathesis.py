"""Schemathesis against our own OpenAPI document: no 5xx, no status that is not documented."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.client import Address

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


@pytest.mark.slow
def test_no_call_that_the_document_allows_is_answered_with_what_it_does_not(
    server: Address, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
    command += ["--checks", CHECKS, "--max-examples", "20", "--request-timeout", "60"]
    command += ["--header", f"Authorization: Bearer {server.api_key}", "--seed", "7"]
    # Or every synchronous call waits for the model.
    command += ["--header", "Prefer: respond-async", "--phases", "examples,coverage,fuzzing"]
    # Streams that have no end are no calls that can be checked so.
    command += ["--exclude-path-regex", "/events$|/stream$"]
    command += ["--no-color", "--suppress-health-check", "all"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
