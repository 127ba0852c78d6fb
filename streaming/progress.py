"""The progress offset: which batches of a state partition are in Kafka already.

Partition p of ``cb.progress`` has the consumer-group offset n + 1 once batch n of state partition p is in; the
group is the checkpoint's query id, the offset's metadata is the hash of the batch's entry in the offset log.
"""

from dataclasses import dataclass
from enum import Enum

from checkback.exceptions import ProgressError


class Verdict(Enum):
    """What a task may do with its rows."""

    WRITE = "write"
    SKIP = "skip"


@dataclass(frozen=True)
class Progress:
    """The progress offset of one state partition; ``offset`` is None when there is none."""

    offset: int | None
    entry_hash: str = ""


def judge_progress(progress: Progress, batch_id: int, entry_hash: str, partition: int) -> Verdict:
    """Whether batch ``batch_id`` of a state partition is to be written or is in already.

    Raises:
        ProgressError: neither, so that going on would lose or repeat messages.
    """
    if progress.offset is None:
        if batch_id == 0:
            return Verdict.WRITE
        raise ProgressError(
            f"State partition {partition} has no progress offset, but the checkpoint is at batch {batch_id}: the "
            "offset has expired or Kafka was set up anew. A new checkpoint folder starts afresh, and delivers what the "
            "half topic still has once more: consumers must drop what they know by its cb-id."
        )
    if progress.offset <= batch_id:
        return Verdict.WRITE
    if progress.offset == batch_id + 1 and progress.entry_hash == entry_hash:
        return Verdict.SKIP
    raise ProgressError(
        f"State partition {partition}: Kafka has batch {progress.offset - 1}, the checkpoint is about to write "
        f"{'another ' if progress.offset == batch_id + 1 else ''}batch {batch_id}. The checkpoint was restored from an "
        "older copy, or two jobs run on it. Go on with the newer checkpoint, or stop the other job."
    )
