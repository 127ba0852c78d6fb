"""What a start makes sure of, between the checkpoint folder and Kafka, before Spark runs a batch."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from checkback.exceptions import CheckpointMismatchError
from conf import Settings
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.folder import Checkpoint, CheckpointFacts
from streaming.checkpoint.progress import Progress, judge_start
from streaming.checkpoint.repair import CheckpointCondition, continue_clock, examine, last_batch, repairs
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.fence import fence, read_progress

_LOGGER = logging.getLogger(__name__)


def facts_of(settings: Settings, half_partitions: int, ids: Mapping[str, str]) -> CheckpointFacts:
    """What a checkpoint has to say of itself to fit these settings, and topics with these ids of Kafka."""
    topics = settings.kafka.topics
    return CheckpointFacts(
        settings.transactions.segment_size,
        settings.job.state_partitions,
        half_partitions,
        settings.kafka.topic_prefix,
        ids.get(topics.half, ""),
        ids.get(topics.op, ""),
    )


@dataclass(frozen=True)
class Clock:
    """What the machine's clock says at the start, and how far off it may be; milliseconds."""

    now_ms: int
    tolerance_ms: int

    @property
    def horizon_ms(self) -> int:
        """What is dated after it, is dated by a clock that was ahead."""
        return self.now_ms + self.tolerance_ms


class TakeOver:
    """Takes a checkpoint over from whoever ran on it before, if it can be continued.

    In two parts, so that all that may fail is tried between them, while the run before continues undisturbed. The
    folder fits (:meth:`streaming.checkpoint.folder.Checkpoint.check`). ``to_grow``: state partitions that it is to get.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        own: Owner,
        clock: Clock,
        settings: SinkSettings,
        claim: Claim,
        partitions: int,
        to_grow: int | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._own = own
        self._clock = clock
        self._settings = settings
        self._claim = claim
        self._partitions = partitions
        self._to_grow = to_grow
        self._new_checkpoint = False

    def judge(self, *, new_checkpoint: bool) -> None:
        """Whether the checkpoint can be gone on with; changes nothing in Kafka or on disk.

        1. The topics are not another checkpoint's; the clock is not behind.
        2. Kafka's progress and the checkpoint's newest batch fit together.
        3. What a crash or a power loss has left can be repaired.

        Raises:
            CheckpointMismatchError, ProgressError: continuing would do harm, or cannot be done.
        """
        self._new_checkpoint = new_checkpoint
        self._claim.judge(self._own, new_checkpoint=new_checkpoint)  # 1
        found = examine(self._checkpoint, self._clock.horizon_ms)
        refuse_slow_clock(found, _last_time_ms(self._checkpoint, found), self._clock)
        progress = self._progress(settled=False)
        judge_start(progress, last_batch(found, self._checkpoint.floor()))  # 2
        repairs(self._checkpoint, found, progress)  # 3

    def take(self) -> dict[tuple[str, int], int]:
        """Take the checkpoint over. Returns what it has read, by topic and partition.

        1. Claim the topics, unless somebody else has meanwhile: the run before stops at its next batch.
        2. Fence its producers, and compare again: now nobody else can move the progress.
        3. Repair what a crash, a power loss or a clock that was set has left. From now on the folder is of this
           program's version.

        Raises:
            CheckpointMismatchError, ProgressError: the run before has changed something since :meth:`judge`.
        """
        self._checkpoint.synchronise()  # the topics never belong to a folder that a power loss takes
        self._claim.take(self._own, lambda: self._claim.judge(self._own, new_checkpoint=self._new_checkpoint))  # 1
        self._checkpoint.refuse_half_grown(self._to_grow)  # 'checkback grow' may have begun meanwhile
        fence(self._settings, self._own.query_id, self._partitions)  # 2
        progress = self._progress(settled=True)
        found = examine(self._checkpoint, self._clock.horizon_ms)  # the run before may have begun a batch meanwhile
        judge_start(progress, last_batch(found, self._checkpoint.floor()))
        for name in repairs(self._checkpoint, found, progress):  # 3
            self._checkpoint.remove(name)
            _LOGGER.warning("Removed %s from the checkpoint: its batch is run again.", name)
        continue_clock(self._checkpoint, self._clock.now_ms)
        self._checkpoint.remember_version()
        return self._checkpoint.read_to()

    def _progress(self, *, settled: bool) -> list[Progress]:
        return read_progress(self._settings, self._own.query_id, self._partitions, settled=settled)


def refuse_slow_clock(found: CheckpointCondition, last_ms: int, clock: Clock) -> None:
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


def _last_time_ms(checkpoint: Checkpoint, found: CheckpointCondition) -> int:
    """The time of the newest batch that was, or will be, run."""
    if found.entry is not None and not found.given_up:
        return found.entry.time_ms
    if found.begun:
        return checkpoint.entry(found.begun - 1).time_ms
    return 0
