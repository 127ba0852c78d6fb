"""A job's batches as it tells of them, each with the CPU time used until its end."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.cost.groups import CpuOfJob, CpuSeconds

_WORKERS_EVERY_SECONDS = 0.03
_ALL_EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class DoneBatch:
    """One that did something. ``at``: ``time.time()`` of its end."""

    number: int
    at: float
    counts: Mapping[str, int]
    cpu: CpuSeconds

    @property
    def transactions(self) -> int:
        """Decided in it."""
        return self.counts.get("committed", 0) + self.counts.get("rolled_back", 0)


class BatchCourse(threading.Thread):
    """Follows the log of ``checkback run`` (``LOG__FORMAT=json``) until stopped."""

    def __init__(self, log: Path, cpu: CpuOfJob, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="batch-course", daemon=True)
        self._log = log
        self._cpu = cpu
        self._clock = clock
        self._read = 0
        self._batches: list[DoneBatch] = []
        self._used: CpuSeconds = {}
        self._stopping = threading.Event()

    @property
    def batches(self) -> Sequence[DoneBatch]:
        """Those until now."""
        return tuple(self._batches)

    @property
    def used(self) -> CpuSeconds:
        """CPU time as of a second ago at most."""
        return self._used

    def run(self) -> None:
        """Look until stopped."""
        looked = 0.0
        while not self._stopping.wait(_WORKERS_EVERY_SECONDS):
            said = self._said()
            if said or self._clock() > looked + _ALL_EVERY_SECONDS:
                self._used = cpu = self._cpu.look()
                self._batches += [DoneBatch(line["batch"], _time(line), line["counts"], cpu) for line in said]
                looked = self._clock()
            else:
                self._cpu.look_at_workers()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self.join()

    def _said(self) -> list[dict[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(self._read)
            whole, end, _ = log.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        return [line for text in whole.splitlines() if (line := _object(text)).get("event") == "batch"]


def _object(text: bytes) -> dict[str, Any]:
    """Nothing where it is no JSON: Spark's Java prints, too."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _time(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(line["time"])).timestamp()
