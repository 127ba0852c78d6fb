"""An example as its reader starts it: ``python -m examples.NAME``, in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 600


def run_example(folder: Path, *command: str) -> tuple[int, str]:
    """Its exit status, and what it printed; ``folder`` is where that is kept."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "said").open("w+b") as said:
        # a group of its own: at the deadline whatever it has started goes with it
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(DEADLINE_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return status, (folder / "said").read_text(encoding="utf-8")
