"""A command that does not stop in time ends all the same, and says so."""

import subprocess
import sys

_HANGS = """
import logging, os, signal, time
from checkback.signals import stop_on_signals
logging.basicConfig(format="%(message)s")
stop_on_signals(within=0.1)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def test_a_command_that_hangs_ends_and_says_that_it_had_something_in_hand() -> None:
    done = subprocess.run([sys.executable, "-c", _HANGS], capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0
    assert "has not stopped within 0 s, and ends now: a start does again what was in hand" in done.stderr
