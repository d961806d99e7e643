"""The promise under a short storm: the same command that a person runs for longer."""

import json
import os
import subprocess
import sys


def test_nothing_is_lost_or_doubled_while_everything_is_killed() -> None:
    command = [sys.executable, "-c", "from cli.main import app; app()", "chaos"]
    done = subprocess.run(
        [*command, "--items", "300", "--seconds", "20", "--seed", "7", "--json"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["items"] == 300
    assert (report["lost"], report["doubled"], report["broken"]) == (0, 0, {})
    assert sum(report["faults"].values()) >= 8
    assert len(report["faults"]) >= 4
