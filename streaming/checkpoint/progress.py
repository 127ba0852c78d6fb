"""The progress offset: which batches of a state partition are in Kafka already.

Partition p of ``cb.progress`` has the consumer-group offset n + 1 once batch n of state partition p is in; the
group is the checkpoint's query id, the offset's metadata is the hash of the batch's entry in the offset log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self

from checkback.exceptions import ProgressError

_AFRESH = (
    "A new checkpoint folder ('checkback run --new-checkpoint') re-delivers everything that is still in the half "
    "topic: consumers must deduplicate by cb-id."
)


class ProgressVerdict(Enum):
    """What a task may do with its rows."""

    WRITE = "write"
    SKIP = "skip"


@dataclass(frozen=True)
class Progress:
    """The progress offset of one state partition; ``offset`` is None when there is none."""

    offset: int | None
    entry_hash: str = ""

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Self:
        """What Kafka says of one partition; a negative offset is none."""
        return cls(None) if offset < 0 else cls(offset, metadata or "")


def progress_group(query_id: str) -> str:
    """The consumer group that holds a checkpoint's progress offsets."""
    return f"checkback-{query_id}"


def transactional_id(query_id: str, partition: int, generation: int = 0) -> str:
    """The id by which Kafka fences all but the newest producer of a state partition.

    Generations: see :mod:`streaming.kafka_sink.beginning`.
    """
    return f"checkback-{query_id}-{partition}" + (f".{generation}" if generation else "")


def trial_id(query_id: str) -> str:
    """A transactional id beside those of the state partitions, for :mod:`streaming.trial`."""
    return f"checkback-{query_id}-trial"


def judge_progress(
    progress: Progress, batch_id: int, entry_hash: str, partition: int, floor: int = 0
) -> ProgressVerdict:
    """Whether batch ``batch_id`` of a state partition is to be written or is in already.

    ``floor`` is an offset that the partition is known to have reached: 0, or that of the last batch in which every
    partition wrote.

    Raises:
        ProgressError: neither, so that continuing would lose or repeat messages.
    """
    if progress.offset is None:
        if batch_id == 0:
            return ProgressVerdict.WRITE
        raise _missing(partition, batch_id)
    if progress.offset < floor:
        raise ProgressError(
            f"State partition {partition}: Kafka has forgotten batches, its progress offset is {progress.offset} and "
            f"was at least {floor}: Kafka was restored from an older copy or lost data. {_AFRESH}"
        )
    if progress.offset <= batch_id:
        return ProgressVerdict.WRITE
    if progress.offset == batch_id + 1 and progress.entry_hash == entry_hash:
        return ProgressVerdict.SKIP
    raise ProgressError(
        f"State partition {partition}: Kafka has batch {progress.offset - 1}, the checkpoint is about to write "
        f"{'another ' if progress.offset == batch_id + 1 else ''}batch {batch_id}. The checkpoint was restored from an "
        "older copy, or two jobs run on it. Go on with the newer checkpoint, or stop the other job."
    )


@dataclass(frozen=True)
class LastBatch:
    """Where a checkpoint stands when a job starts on it."""

    number: int | None
    """None when no batch was ever begun."""
    entry_hash: str
    """Of its entry in the offset log; empty when that is torn."""
    finished_any: bool
    """Whether a batch has been finished: every partition has written once then."""
    floor: int
    """See :func:`judge_progress`."""


def judge_start(progress: Sequence[Progress], last: LastBatch) -> None:
    """Compare Kafka with the checkpoint before Spark runs a batch: the rules of its tasks, for all state partitions.

    Raises:
        ProgressError: a task of the first batch would find a progress offset that it may not follow.
    """
    for partition, found in enumerate(progress):
        if found.offset is None:
            if last.finished_any:
                raise _missing(partition, last.number or 0)
        elif last.number is None:
            raise ProgressError(
                f"State partition {partition}: Kafka has batch {found.offset - 1}, the checkpoint has none: its offset "
                "log was removed, or restored from an older copy. Go on with the newer checkpoint."
            )
        elif found.offset != last.number + 1 or last.entry_hash:  # what may follow a torn entry is judged with it
            judge_progress(found, last.number, last.entry_hash, partition, last.floor)


def _missing(partition: int, batch: int) -> ProgressError:
    return ProgressError(
        f"State partition {partition} has no progress offset, but the checkpoint is at batch {batch}: the offset has "
        f"expired or Kafka was replaced. {_AFRESH}"
    )
