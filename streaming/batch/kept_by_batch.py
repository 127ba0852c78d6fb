"""What a batch is evaluated under and the next one perhaps not, kept in the checkpoint folder with the batch that it
holds from.

A batch that a crash cut off is run again, and must come to the same: see docs/decisions/0014.
"""

import logging
from collections.abc import Callable
from operator import eq
from typing import Generic, NamedTuple, TypeVar

from checkback.exceptions import CheckpointMismatchError
from streaming.batch.numbered_files import BATCHES, NumberedFiles
from streaming.folders import Folder

_LOGGER = logging.getLogger(__name__)
_BATCHES_KEPT = 100
"""The batch before may be needed for a restore."""

T = TypeVar("T")


class KeptForm(NamedTuple, Generic[T]):
    """What is kept, and in which files."""

    files: NumberedFiles
    spelled: Callable[[T], bytes]
    parsed: Callable[[bytes], T | None]
    """None where the file is torn."""
    nothing: T
    """What holds where there is no file."""
    torn: str
    """What is logged of a torn one that does no harm, with the file's name for ``%s``."""
    same: Callable[[T, T], bool] = eq

    def begun_under(self, checkpoint: Folder, batch: int) -> tuple[str, T | None]:
        """The file that holds for a batch, empty for none, and its content, None if it is torn; changes nothing."""
        start = max((number for number in self.files.numbers(checkpoint.children()) if number <= batch), default=None)
        if start is None:
            return "", self.nothing
        return (name := self.files.name(start)), self.parsed(checkpoint.read(name))


class KeptByBatch(Generic[T]):
    """What holds, by the batch that it holds from."""

    def __init__(self, checkpoint: Folder, form: KeptForm[T]) -> None:
        self._checkpoint = checkpoint
        self._form = form
        self._from: dict[int, T] = {}
        self._read = False

    def begin(self, first: int, wanted: T) -> None:
        """At start, when nobody else can begin a batch any more: let this hold from the first batch never begun."""
        for start in [start for start in self._files() if start > first]:  # of a start whose batch never began
            self._checkpoint.remove(self._form.files.name(start))
        self._from = {start: self._content(start, wanted) for start in self._files()}
        if not self._form.same(self._at(first), wanted):
            self._keep(first, wanted)

    def of_batch(self, batch: int, wanted: Callable[[T], T]) -> T:
        """What holds in a batch that is about to be run; call it for one batch after the other.

        1. The first one after a start may have been run before: it has what was written for it.
        2. For any other, what is ``wanted`` now, given what held; written down before the batch is run, if it is
           something else.
        3. Files that only batches before it had are removed.
        """
        first = not self._read
        if first:
            nothing = self._form.nothing
            self._from = {start: self._content(start, wanted(nothing)) for start in self._files()}
            self._read = True
        now = self._at(batch)
        if not first:  # 1
            following = wanted(now)
            if not self._form.same(following, now):  # 2
                self._keep(batch, following)
                now = following
        self._forget(batch)  # 3
        return now

    def _at(self, batch: int) -> T:
        starts = [start for start in self._from if start <= batch]
        return self._from[max(starts)] if starts else self._form.nothing

    def _files(self) -> list[int]:
        return self._form.files.numbers(self._checkpoint.children())

    def _keep(self, batch: int, content: T) -> None:
        self._checkpoint.write(self._form.files.name(batch), self._form.spelled(content))
        self._from[batch] = content

    def _forget(self, batch: int) -> None:
        # not the newest of them, which holds until there is another
        passed = sorted(start for start in self._from if start < batch - _BATCHES_KEPT)[:-1]
        for start in passed:
            self._checkpoint.remove(self._form.files.name(start))
            del self._from[start]

    def _content(self, number: int, instead: T) -> T:
        name = self._form.files.name(number)
        found = self._form.parsed(self._checkpoint.read(name))
        if found is None:  # nothing of a batch that was begun under it is in Kafka: see refuse_torn
            _LOGGER.warning(self._form.torn, name)
            found = instead
            self._checkpoint.write(name, self._form.spelled(found))
        return found


def refuse_torn(
    checkpoint: Folder,
    form: KeptForm[T],
    in_kafka: Callable[[int], bool],
    torn: Callable[[str], CheckpointMismatchError],
) -> None:
    """At start: whether an unfinished batch can be run under what it was begun with; changes nothing.

    Args:
        checkpoint: its folder.
        form: what is kept.
        in_kafka: whether Kafka has a part of this batch. If not, it is as good as never begun.
        torn: the error for a file that is torn.

    Raises:
        CheckpointMismatchError: the file that says it is torn, and a part of the batch is in Kafka.
    """
    begun, ended = (max(BATCHES.numbers(checkpoint.children(log)), default=-1) for log in ("offsets", "commits"))
    if begun > ended:
        name, content = form.begun_under(checkpoint, begun)
        if content is None and in_kafka(begun):
            raise torn(name)
