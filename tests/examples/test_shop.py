"""The example runs as its README says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 220


@pytest.mark.timeout(DEADLINE_SECONDS + 20)
def test_every_service_gets_exactly_the_paid_orders(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "examples.shop"]
    with (tmp_path / "said").open("w+b") as said:
        # a group of its own: at the deadline the job and the shop go with it
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(DEADLINE_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    told = (tmp_path / "said").read_text(encoding="utf-8")
    assert status == 0, told
    assert told.count("the shop died between its database commit and the op") == 2, told
    assert told.count("the shop died before its database commit") == 1, told
    assert told.count("the card was refused") == 2, told
    assert told.count(" got 9 messages:") == 3, told
