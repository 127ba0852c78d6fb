"""``checkback run`` as a process of a test or a measurement."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from checkback.exceptions import CheckbackError
from checkback.local.supervisor import die_with_starter

_STOP_SECONDS = 60.0


class JobProcess:
    """``checkback run`` under these settings (``SECTION__KEY``); it is ended with the block. Needs ``checkback-job``.

    ``output`` is the file that gets what it prints. ``beside``: further variables of its environment.
    """

    def __init__(self, output: Path, settings: Mapping[str, str], beside: Mapping[str, str] | None = None) -> None:
        self._output = output
        self.began = time.monotonic()
        environment = {f"CHECKBACK_{name}": value for name, value in settings.items()}
        with self._output.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "checkback", "run"],
                env={**os.environ, **environment, **(beside or {})},
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
            )

    @property
    def pid(self) -> int:
        """Of the driver's Python process."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """All whole lines that it has printed."""
        whole, _, _ = self._output.read_text(encoding="utf-8", errors="replace").rpartition("\n")
        return whole

    def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition while the job runs.

        Raises:
            CheckbackError: the job ended, or within ``seconds`` it has not done ``what``.
        """
        until = time.monotonic() + seconds
        while not holds():
            if self.exit_status is not None:
                raise CheckbackError(f"The job ended with status {self.exit_status}: {self.said()[-2000:]}")
            if time.monotonic() > until:
                raise CheckbackError(f"Within {seconds:.0f} s the job has not {what}.")
            time.sleep(0.1)

    def run_for(self, seconds: float) -> None:
        """Let ``seconds`` pass.

        Raises:
            CheckbackError: the job ended.
        """
        until = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= until, math.inf, "waited")

    def kill(self) -> None:
        """SIGKILL. What it has started ends by itself then, a moment later."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
