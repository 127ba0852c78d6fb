"""The processes of a measurement: ``checkback run``, and parties of the load that are not to share its interpreter."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from bench.memory import tree_of
from checkback.testing import JobProcess

SPAWN = multiprocessing.get_context("spawn")
"""The load's threads and sockets are not to be inherited."""


Tell = Callable[[str], None]
"""Hears of each step of a measurement."""


class RunningJob(JobProcess):
    """One that can be killed with all that it has started."""

    def kill(self) -> None:
        """SIGKILL to it and to all that it has started, at once."""
        for member in tree_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def party(does: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A process that does that, with one argument more: its end of a connection, whose other end we get."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=does, args=(*arguments, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()
