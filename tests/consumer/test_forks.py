"""The child of a fork has its parent's memory, its queue of messages among it, and none of its threads."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from checkback.consumer import PullConsumer
from checkback.exceptions import ConfigurationError
from tests.consumer.forking import COUNT, WAYS


@pytest.mark.parametrize("where", ["threads", "loop"])
def test_the_child_of_a_listener_that_forks_handles_nothing(where: str) -> None:
    command = [sys.executable, "-m", "tests.consumer.forking", where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            said, complaints = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the child as well
    found, complained = (text.decode().split("way ")[1:] for text in (said, complaints))
    for (way, status), lines, errors in zip(WAYS.items(), map(str.splitlines, found), complained, strict=True):
        assert lines[0] == way
        assert [line for line in lines if line.startswith("handled")] == [f"handled {n} parent" for n in range(COUNT)]
        ends = [f"ended {status}", "ended 4"][: 1 + (where == "threads")]
        assert [line for line in lines if line.startswith("ended")] == ends
        assert any(line.startswith("refused") and "after the fork" in line for line in lines)
        assert ("the child's" in errors) == (way == "raise")


class Log:
    """A pull consumer's client that is asked nothing."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_the_child_of_a_fork_pulls_nothing_and_closes_nothing() -> None:
    log: Any = Log()
    said, write = os.pipe()
    consumer = PullConsumer("x:1", client=log)
    child = os.fork()
    if child == 0:  # only system calls from here on: this is a copy of pytest
        try:
            consumer.close()
            os.write(write, f"closed {log.closed} ".encode())
            consumer.pull("orders", 0, 0)
        except ConfigurationError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(said, "rb") as from_child:
        text = from_child.read()
    os.waitpid(child, 0)
    assert text.startswith(b"closed False This PullConsumer was made in another process")
