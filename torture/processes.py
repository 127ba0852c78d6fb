"""The processes of a fault run: started, found, killed, stopped and continued by their ids."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from checkback.exceptions import CheckbackError
from checkback.local.supervisor import die_with_starter
from torture.death import kill_driver, send_to_all

_EXECUTOR = "CoarseGrainedExecutorBackend"
_DAEMON = "streaming.daemon"
_CRASH = re.compile(
    r"Fatal Python error: (Segmentation fault|Aborted|Bus error|Illegal instruction|Floating)[\s\S]{0,4000}"
)
"""What faulthandler prints, of the process or of one that it has started; no signal of a fault does that."""


class CrashedError(CheckbackError):
    """A process has crashed by itself, which no restart may hide."""


def send(processes: Iterable[int], number: int) -> None:
    """A signal to those that are still there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def all_of(process: int | None) -> list[int]:
    """It, and all that it has started; none when it does not run."""
    if process is not None:
        with suppress(psutil.NoSuchProcess):
            return [process, *(child.pid for child in psutil.Process(process).children(recursive=True))]
    return []


class Process:
    """``python -m MODULE ARGUMENTS`` in a process group of its own, with a log."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._log = log
        self._from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  (our own modules)
                [sys.executable, "-m", *command],
                env={"PYTHONFAULTHANDLER": "1", **os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs.

        Raises:
            CrashedError: it has ended, and has printed the stack of a crash.
        """
        status = self._process.poll()
        crash = None if status is None else _CRASH.search(self.said())
        if crash:
            raise CrashedError(f"{' '.join(self._command)} has crashed (exit {status}, {self._log}): {crash[0]}")
        return status

    def said(self) -> str:
        """What it has printed."""
        with self._log.open("rb") as log:
            log.seek(self._from)
            return log.read().decode(errors="replace")

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def terminate_in_order(self, seconds: float = 60.0) -> None:
        """SIGTERM, once it has a handler of its own: one that is still starting would end without closing anything."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and not self._handles_sigterm() and time.monotonic() < deadline:
            time.sleep(0.05)
        self._process.terminate()

    def _handles_sigterm(self) -> bool:
        with suppress(OSError):
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
            return bool(caught >> (signal.SIGTERM - 1) & 1)
        return True  # not Linux, or it has just ended

    def wait(self, seconds: float) -> int | None:
        """Exit status, None when it still runs after so long."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        """SIGKILL to it and to all that it started and that still know it."""
        with suppress(psutil.NoSuchProcess):
            for process in [psutil.Process(self.pid), *self._descendants()]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.wait()

    def _descendants(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self.pid).children(recursive=True))
        return []


class JobProcess(Process):
    """The job: a driver (Python and a JVM), executors (JVMs of their own), Python workers under each executor."""

    def kill_driver(self) -> None:
        """SIGKILL to the driver; its executors notice it later."""
        with suppress(psutil.NoSuchProcess):
            kill_driver(self.pid)
        self._process.wait()

    def executors(self) -> list[psutil.Process]:
        """JVMs of the executors."""
        return self._whose_command_says(_EXECUTOR)

    def driver_jvms(self) -> list[psutil.Process]:
        """The driver's JVM; none before it has started."""
        with suppress(psutil.NoSuchProcess):
            return [child for child in psutil.Process(self.pid).children() if child.name() == "java"]
        return []

    def workers(self) -> list[psutil.Process]:
        """Python workers, each forked from its executor's daemon."""
        daemons = self._whose_command_says(_DAEMON)
        ids = {daemon.pid for daemon in daemons}
        return [process for process in daemons if _parent(process) in ids]

    def suspend(self) -> None:
        """SIGSTOP to all of it."""
        send_to_all(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT to all of it."""
        send_to_all(self.pid, signal.SIGCONT)

    def _whose_command_says(self, word: str) -> list[psutil.Process]:
        found = []
        for process in self._descendants():
            with suppress(psutil.NoSuchProcess):
                if any(word in part for part in process.cmdline()):
                    found.append(process)
        return found


def _parent(process: psutil.Process) -> int | None:
    with suppress(psutil.NoSuchProcess):
        return process.ppid()
    return None
