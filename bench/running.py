"""``checkback run`` as a process of a measurement."""

import contextlib
import os
import signal

from bench.memory import tree_of
from checkback.testing import JobProcess


class RunningJob(JobProcess):
    """One that can be killed with all that it has started."""

    def kill(self) -> None:
        """SIGKILL to it and to all that it has started, at once."""
        for member in tree_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        self._process.wait()
