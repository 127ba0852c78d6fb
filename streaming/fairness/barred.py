"""Which groups a batch takes no half messages of, kept in the checkpoint folder with the batch that it holds from.

A batch that a crash cut off is run again, and must come to the same: see docs/decisions/0014.
"""

import json
from collections.abc import Callable

from pyspark import SparkContext, TaskContext

from streaming.fairness.quotas import Barred
from streaming.folders import Folder

_PREFIX, _SUFFIX = "checkback-barred-", ".json"
_PROPERTY = "checkback.barred"


class BarredInForce:
    """Barred groups by the batch that they are barred from."""

    def __init__(self, checkpoint: Folder, wanted: Callable[[Barred], Barred]) -> None:
        self._checkpoint = checkpoint
        self._wanted = wanted
        self._from: dict[int, Barred] = {}
        self._read = False

    def of_batch(self, batch: int) -> Barred:
        """Those of a batch that is about to be run; call it for one batch after the other.

        1. The first one after a start may have been run before: it has those that were written for it.
        2. For any other, those that are wanted now; written down before the batch is run, if they are others.
        3. Files that only batches before it had are removed.
        """
        first = not self._read
        if first:
            self._from = {number: self._content(number) for number in self._numbers()}
            self._read = True
        starts = [start for start in self._from if start <= batch]
        now = self._from[max(starts)] if starts else {}
        if not first:  # 1
            wanted = self._wanted(now)
            if wanted.keys() != now.keys():  # 2
                self._checkpoint.write(_name(batch), json.dumps(wanted).encode())
                self._from[batch] = now = wanted
        self._forget(batch)  # 3
        return now

    def _forget(self, batch: int) -> None:
        # not the newest of them, which holds until there is another; the batch before may be needed for a restore
        passed = sorted(start for start in self._from if start < batch - 100)[:-1]
        for start in passed:
            self._checkpoint.remove(_name(start))
            del self._from[start]

    def _numbers(self) -> list[int]:
        names = [name.removeprefix(_PREFIX) for name in self._checkpoint.children() if name.startswith(_PREFIX)]
        return [int(name.removesuffix(_SUFFIX)) for name in names if name.removesuffix(_SUFFIX).isdigit()]

    def _content(self, number: int) -> Barred:
        return dict(json.loads(self._checkpoint.read(_name(number))))


def tell_tasks(spark: SparkContext, barred: Barred) -> None:
    """Let the tasks of the batch that this thread is about to run know."""
    spark.setLocalProperty(_PROPERTY, json.dumps(barred))


def told() -> Barred:
    """In a task: what :func:`tell_tasks` said; nobody is barred where it said nothing."""
    context = TaskContext.get()
    found = context.getLocalProperty(_PROPERTY) if context else None
    return dict(json.loads(found)) if found else {}


def _name(start: int) -> str:
    return f"{_PREFIX}{start}{_SUFFIX}"
