"""What a start makes sure of, between the checkpoint folder and Kafka, before Spark runs a batch."""

import logging
from dataclasses import dataclass

from checkback.exceptions import CheckpointMismatchError
from streaming.checkpoint import Checkpoint, CheckpointFacts
from streaming.claim import Claim, Owner
from streaming.fence import fence, read_progress
from streaming.mending import Condition, examine, last_batch, mend
from streaming.partition_writer import SinkSettings
from streaming.progress import judge_start

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Clock:
    """What the machine's clock says at the start, and how far behind the checkpoint it may be; milliseconds."""

    now_ms: int
    tolerance_ms: int


def open_checkpoint(
    checkpoint: Checkpoint,
    facts: CheckpointFacts,
    clock: Clock,
    settings: SinkSettings,
    claim: Claim,
    *,
    claim_name: bool,
) -> Owner:
    """Take a checkpoint over from whoever ran on it before, if it may be gone on with.

    Nothing is changed in Kafka or on disk, and a job that runs on the checkpoint is not disturbed, before step 4.

    1. The folder can be written to; settings and topics are those it was made with.
    2. The job's name is not another checkpoint's; the clock is not behind.
    3. Kafka's progress and the checkpoint's newest batch fit together.
    4. Claim the name: the run before stops at its next batch.
    5. Fence its producers, and compare again: now nobody else can move the progress.
    6. Mend what a crash or a power loss has left.

    Returns:
        This run, as the claim names it.

    Raises:
        CheckpointMismatchError, ProgressError: going on would do harm, or cannot be done.
    """
    checkpoint.check(facts)  # 1
    query_id = checkpoint.query_id()
    claim.judge(query_id, claim_name=claim_name)  # 2
    found = examine(checkpoint)
    refuse_slow_clock(found, _last_time_ms(checkpoint, found), clock)
    last = last_batch(found, checkpoint.floor())
    judge_start(read_progress(settings, query_id, facts.state_partitions, settled=False), last)  # 3
    owner = Owner(query_id)
    claim.take(owner)  # 4
    fence(settings, query_id, facts.state_partitions)  # 5
    progress = read_progress(settings, query_id, facts.state_partitions, settled=True)
    found = examine(checkpoint)  # the run before may have begun a batch meanwhile
    judge_start(progress, last_batch(found, checkpoint.floor()))
    for name in mend(checkpoint, found, progress):  # 6
        _LOGGER.warning("Removed %s from the checkpoint: its batch is run again.", name)
    return owner


def refuse_slow_clock(found: Condition, last_ms: int, clock: Clock) -> None:
    """Refuse to start on a clock with which Spark would drop new records as late.

    Raises:
        CheckpointMismatchError: it is behind the last batch by more than is tolerated, or behind the watermark.
    """
    entry = None if found.given_up else found.entry
    watermark_ms = max(found.watermark_ms or 0, entry.watermark_ms if entry else 0)
    behind_ms = max(last_ms - clock.now_ms, watermark_ms + clock.tolerance_ms - clock.now_ms)
    if behind_ms > clock.tolerance_ms or clock.now_ms <= watermark_ms:
        raise CheckpointMismatchError(
            f"This machine's clock is {behind_ms / 1000:.0f} s behind the checkpoint's last batch, more "
            "than job.clock_tolerance: Spark would drop new records as late. Set the clock, or, if it was ahead before "
            "and is right now, wait until it has caught up; then start again."
        )


def _last_time_ms(checkpoint: Checkpoint, found: Condition) -> int:
    """The time of the newest batch that was, or will be, run."""
    if found.entry is not None and not found.given_up:
        return found.entry.time_ms
    if found.begun:
        return checkpoint.entry(found.begun - 1).time_ms
    return 0
