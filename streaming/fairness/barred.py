"""Which groups a batch takes no half messages of, kept in the checkpoint folder with the batch that it holds from.

A batch that a crash cut off is run again, and must come to the same: see docs/decisions/0014.
"""

import json
import logging
from collections.abc import Callable

from pyspark import SparkContext, TaskContext

from checkback.exceptions import CheckpointMismatchError
from streaming.batch.numbered_files import BATCHES, NumberedFiles
from streaming.fairness.quotas import Barred
from streaming.folders import Folder

_LOGGER = logging.getLogger(__name__)
_FILES = NumberedFiles("checkback-barred-", ".json")
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
            self._from = {number: self._content(number) for number in _FILES.numbers(self._checkpoint.children())}
            self._read = True
        starts = [start for start in self._from if start <= batch]
        now = self._from[max(starts)] if starts else {}
        if not first:  # 1
            wanted = self._wanted(now)
            if wanted.keys() != now.keys():  # 2
                self._checkpoint.write(_FILES.name(batch), json.dumps(wanted).encode())
                self._from[batch] = now = wanted
        self._forget(batch)  # 3
        return now

    def _forget(self, batch: int) -> None:
        # not the newest of them, which holds until there is another; the batch before may be needed for a restore
        passed = sorted(start for start in self._from if start < batch - 100)[:-1]
        for start in passed:
            self._checkpoint.remove(_FILES.name(start))
            del self._from[start]

    def _content(self, number: int) -> Barred:
        found = _parsed(self._checkpoint.read(_FILES.name(number)))
        if found is None:  # nothing of a batch that was begun under it is in Kafka: see refuse_torn
            _LOGGER.warning(
                "%s in the checkpoint was torn: no group is barred until the quotas are known again.",
                _FILES.name(number),
            )
            found = {}
            self._checkpoint.write(_FILES.name(number), json.dumps(found).encode())
        return found


def refuse_torn(
    checkpoint: Folder, in_kafka: Callable[[int], bool], torn: Callable[[str], CheckpointMismatchError]
) -> None:
    """At start: whether an unfinished batch can be run under what it was begun with; changes nothing.

    Args:
        checkpoint: its folder.
        in_kafka: whether Kafka has a part of this batch. If not, it is as good as never begun.
        torn: the error for a file that is torn.

    Raises:
        CheckpointMismatchError: the file that says it is torn, and a part of the batch is in Kafka.
    """
    begun, ended = (max(BATCHES.numbers(checkpoint.children(log)), default=-1) for log in ("offsets", "commits"))
    start = max((number for number in _FILES.numbers(checkpoint.children()) if number <= begun), default=None)
    if begun <= ended or start is None or _parsed(checkpoint.read(_FILES.name(start))) is not None:
        return
    if in_kafka(begun):
        raise torn(_FILES.name(start))


def _parsed(content: bytes) -> Barred | None:
    """Reasons by group; None when the file is torn."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    known = isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values())
    return found if known else None


def tell_tasks(spark: SparkContext, barred: Barred) -> None:
    """Let the tasks of the batch that this thread is about to run know."""
    spark.setLocalProperty(_PROPERTY, json.dumps(barred))


def told() -> Barred:
    """In a task: what :func:`tell_tasks` said; nobody is barred where it said nothing."""
    context = TaskContext.get()
    found = context.getLocalProperty(_PROPERTY) if context else None
    return dict(json.loads(found)) if found else {}
