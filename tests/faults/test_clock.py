"""The clock that can be set: processes that preload it go by it, at once, and wait as long as ever."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaming.ownership.clock import running_ms
from torture import clock
from torture.clock import SettableClock

_ASK = """
import sys, time
from streaming.ownership.clock import running_ms
for line in sys.stdin:
    before = time.monotonic()
    time.sleep(0.01)
    print(time.time(), time.monotonic() - before, running_ms(), flush=True)
"""


@pytest.mark.skipif(not clock.can_be_set(), reason="needs Linux and a C compiler")
def test_it_moves_a_running_process_and_no_waiting(tmp_path: Path) -> None:
    settable = SettableClock(tmp_path)
    command = [sys.executable, "-c", _ASK]
    with subprocess.Popen(
        command, env=settable.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, -30, -3600, 4 * 86_400, 0):
            settable.set(seconds)
            process.stdin.write("\n")
            process.stdin.flush()
            now, slept, running = map(float, process.stdout.readline().split())
            assert 0 <= running_ms() - running < 10_000, "the clock that the job's is held against is not moved"
            assert abs(now - time.time() - seconds) < 10
            assert 0.01 <= slept < 10
        process.stdin.close()
