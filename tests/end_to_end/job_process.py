"""``checkback run`` as a test's own process."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from checkback.exceptions import InstallationError
from streaming.class_archive import make_archive
from tests.place import FAR_SECONDS, Place


@functools.cache
def _have_classes_ready() -> None:
    with contextlib.suppress(InstallationError):
        make_archive()


class Job:
    """``checkback run`` as a process of its own, in a process group of its own."""

    def __init__(self, place: Place, environment: Mapping[str, str] | None = None) -> None:
        _have_classes_ready()
        self._log = place.folder / f"job-{uuid.uuid4().hex}.log"
        self.environment = {
            **os.environ,
            "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
            "CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix,
            "CHECKBACK_JOB__CHECKPOINT": str(place.folder / "checkpoint"),
            "CHECKBACK_JOB__MASTER": "local[2]",
            "CHECKBACK_JOB__DRIVER_MEMORY": "1g",
            "CHECKBACK_HTTP__PORT": "0",
            "CHECKBACK_JOB__MAX_OFFSETS_PER_TRIGGER": "2000",
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> psutil.Process:
        """The one that was started."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def start(self, python: Sequence[str] = (sys.executable,), folder: str | None = None) -> None:
        with self._log.open("ab") as log:
            command = [*python, "-m", "checkback", "run"]
            self._process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(FAR_SECONDS)

    def ends(self) -> int:
        """Wait for it to end by itself."""
        assert self._process is not None
        return self._process.wait(FAR_SECONDS)

    def said(self) -> str:
        return Path(self._log).read_text(encoding="utf-8", errors="replace")
