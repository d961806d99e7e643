"""Every kernel compiles for the GPUs we name, without a GPU, within their limits."""

import json
import os
import subprocess
import sys

import pytest

#: As `kernels.compile.SHARED_LIMIT`, which cannot be imported into the interpreter's process.
SHARED_LIMIT = {80: 163 * 1024, 90: 227 * 1024, 120: 99 * 1024}


@pytest.mark.parametrize("arch", SHARED_LIMIT)
def test_kernels_compile_without_spills_or_atomics_and_within_shared_memory(arch: int) -> None:
    """In a process of its own: here kernels are the interpreter's."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "kernels.compile", str(arch)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == 14
    for report in reports:
        assert report["spilled"] == 0, report
        assert not report["atomics"], report
        assert report["shared"] <= SHARED_LIMIT[arch], report
