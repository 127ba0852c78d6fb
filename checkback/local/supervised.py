"""A program that ends with the process that started it, also when that is killed."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from checkback.forking import in_child_of
from checkback.local import supervisor


class Supervised:
    """Runs a command under ``supervisor.py``; what both print goes to ``log_file``.

    ``remove``: a folder that is deleted when the program has ended. ``environment``: the program's, beside ours.
    ``pass_fds``: descriptors that it keeps while it lives, a lock's for example.
    """

    def __init__(
        self,
        command: Sequence[str],
        log_file: Path,
        *,
        remove: Path | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._starter = os.getpid()
        with log_file.open("wb") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603  (our own command line)
                [sys.executable, supervisor.__file__, str(remove or ""), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if environment is None else {**os.environ, **environment},
                pass_fds=pass_fds,
                start_new_session=True,  # Ctrl-C is for us: we stop the program, in order
            )

    @property
    def running(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor, whose child the program is; None when it was stopped or killed."""
        return self._process.pid if self._process else None

    def stop(self, seconds: float = 0.0) -> None:
        """End the program in order; with SIGKILL after ``supervisor.GRACE_SECONDS``.

        Harmless when it has ended, and in a child of a fork. ``seconds``: for a folder to be removed.
        """
        if in_child_of(self._starter):
            return
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(supervisor.GRACE_SECONDS + seconds)

    def kill(self) -> None:
        """End the program with SIGKILL, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # the kernel then kills the program: see supervisor.die_with_starter
            process.wait()
