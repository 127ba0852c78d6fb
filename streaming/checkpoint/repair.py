"""What a start finds in the checkpoint folder after a crash or a power loss, and what of it can be repaired.

Nothing is removed that a batch in Kafka rests on. A batch may be repeated: its progress in Kafka says what of it is in
already. An entry of the offset log may go only when no state partition has its batch.
"""

import io
import json
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkback.exceptions import CheckpointMismatchError
from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.offset_log import Entry, committed_watermark_ms, read_entry
from streaming.checkpoint.progress import LastBatch, Progress

STATE = "state/0"
"""Spark's folder of the first stateful operator; ours is the only one."""
SNAPSHOT = ".zip"
_METADATA = "metadata"
_FILES = "SSTs"
_CHANGES = ".changelog"
_CLOCK_BEGAN = "sources/1/0"
"""When Spark's rate source began, in ms since 1970: it counts the seconds since then."""


def torn_snapshots(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Those that are not what was written, or that name a file which is not (RocksDBFileManager: ``metadata``).

    Spark writes snapshots of the state now and then, beside the changes of each batch, after the batch, in a thread of
    its own: a power loss may find one that was not synchronised yet, of whatever batch. Spark skips it
    (AutoSnapshotLoader), as long as the one before is there.
    """
    return tuple(
        f"{STATE}/{partition}/{name}"
        for partition in checkpoint.names(STATE)
        if partition.isdigit()
        for name in checkpoint.names(f"{STATE}/{partition}")
        if name.endswith(SNAPSHOT) and name.removesuffix(SNAPSHOT).isdigit()
        if not _sound(checkpoint, f"{STATE}/{partition}", name)
    )


def _sound(checkpoint: Checkpoint, folder: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(checkpoint.read(f"{folder}/{name}") or b"")) as packed:
            about = _about(packed.read(_METADATA))
    except (zipfile.BadZipFile, KeyError, ValueError):
        return False
    sizes = checkpoint.sizes(f"{folder}/{_FILES}")
    return all(sizes.get(one["dfsSstFileName"]) == one["sizeBytes"] for one in about.get("sstFiles", ()))


def _about(metadata: bytes) -> dict[str, Any]:
    """It begins with a line that says its version."""
    found = json.loads(metadata.partition(b"\n")[2])
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004  (as json says it)
    return found


@dataclass(frozen=True)
class CheckpointCondition:
    """The newest files of a checkpoint."""

    begun: int | None
    """The newest batch in the offset log."""
    entry: Entry | None
    """Its entry; None when that is torn, or when no batch was begun."""
    committed: int | None
    """The newest batch in the commit log, torn or not."""
    watermark_ms: int | None
    """Of the batch after it; None when its file is torn, or there is none."""
    torn_state: tuple[str, ...] = ()
    """Files of the state that the next batch would begin with, and that are not what was written."""
    torn_snapshots: tuple[str, ...] = ()
    """Snapshots of the state that are not what was written. Spark does without: it takes the one before, and what has
    changed since."""
    horizon_ms: int = sys.maxsize
    """No batch can have been dated after it, unless the clock was ahead."""
    backward: bool = False
    """Whether the newest batch ends in the clock before it begins: Spark refuses it before it runs anything of it."""

    @property
    def unfinished(self) -> bool:
        """Whether the newest batch was begun and not committed."""
        return self.begun is not None and (self.committed is None or self.committed < self.begun)

    @property
    def given_up(self) -> bool:
        """Whether the newest batch in the offset log cannot be run as it was begun; see :func:`repairs`."""
        if self.begun is None or self.entry is None:
            return self.begun is not None
        return self.unfinished and (self.entry.late or self.ahead or self.backward or bool(self.torn_state))

    @property
    def ahead(self) -> bool:
        """Whether the newest batch is dated by a clock that was ahead."""
        return self.entry is not None and self.entry.time_ms > self.horizon_ms

    @property
    def commit_torn(self) -> bool:
        """Whether the newest file of the commit log is torn."""
        return self.committed is not None and self.watermark_ms is None


def examine(checkpoint: Checkpoint, horizon_ms: int = sys.maxsize) -> CheckpointCondition:
    """Read the newest files, before Spark does."""
    begun, committed = checkpoint.newest("offsets"), checkpoint.newest("commits")
    entry = None if begun is None else read_entry(begun, checkpoint.read(f"offsets/{begun}") or b"")
    watermark = None if committed is None else committed_watermark_ms(checkpoint.read(f"commits/{committed}") or b"")
    state = [] if committed is None else _state_files(checkpoint, committed + 1)
    torn = tuple(name for name in state if name.endswith(_CHANGES) and not checkpoint.whole(name))
    before = read_entry(begun - 1, checkpoint.read(f"offsets/{begun - 1}") or b"") if begun else None
    backward = entry is not None and before is not None and entry.seconds < before.seconds
    snapshots = torn_snapshots(checkpoint)
    return CheckpointCondition(begun, entry, committed, watermark, torn, snapshots, horizon_ms, backward)


def last_batch(found: CheckpointCondition, floor: int) -> LastBatch:
    """Where the checkpoint stands, for the comparison with Kafka."""
    entry_hash = found.entry.content_hash if found.entry else ""
    return LastBatch(found.begun, entry_hash, found.committed is not None, floor)


def repairs(checkpoint: Checkpoint, found: CheckpointCondition, progress: Sequence[Progress]) -> list[str]:
    """What the start would stumble over, where to remove it loses and repeats nothing.

    1. The newest batch is given up, with the state it has left, when its entry is torn, when Spark would drop all its
       rows as late, when it is dated by a clock that was ahead, when it ends in the clock before it begins, and when
       the state that it begins with is torn.
    2. The newest entry that stays, and the one before it, have to be whole: Spark starts from them.
    3. A torn file of the commit log goes: its batch is repeated. So does the commit of the batch that wrote torn
       state: it writes it again.
    4. Torn snapshots go: else Spark would take one for the oldest that it has to keep, and remove the whole one before.

    Returns:
        The files to be removed, in this order.

    Raises:
        CheckpointMismatchError: something is torn that cannot be done without.
    """
    removed: list[str] = []
    begun = found.begun
    if begun is not None and found.given_up:  # 1
        if not found.unfinished or any((one.offset or 0) > begun for one in progress):
            raise _cannot_go(checkpoint, found, begun)
        removed += files_of_begun(checkpoint, begun)
        begun = begun - 1 if begun else None
    for batch in (begun, begun - 1 if begun else None):  # 2
        if batch is not None:
            checkpoint.entry(batch)
    if found.commit_torn or found.torn_state:  # 3
        removed.append(f"commits/{found.committed}")
    return [*removed, *(name for name in found.torn_snapshots if name not in removed)]  # 4


def continue_clock(checkpoint: Checkpoint, now_ms: int) -> None:
    """Let Spark's rate source count on from the newest batch that stays, whatever the machine's clock was before.

    Left alone, after the clock was set back it would end the next batch before it begins, and no start could run that.
    """
    newest = checkpoint.newest("offsets")
    seconds = 0 if newest is None else checkpoint.entry(newest).seconds
    checkpoint.write(_CLOCK_BEGAN, b"v1\n%d" % (now_ms - 1000 * seconds))


def files_of_begun(checkpoint: Checkpoint, batch: int) -> list[str]:
    """What there is of the newest batch, which has not ended: without it, another batch reads the same again."""
    return [*_state_files(checkpoint, batch + 1), f"offsets/{batch}"]


def _cannot_go(checkpoint: Checkpoint, found: CheckpointCondition, batch: int) -> CheckpointMismatchError:
    if found.entry is None:
        return checkpoint.torn(f"offsets/{batch}")
    if found.torn_state:
        return checkpoint.torn(found.torn_state[0])
    if found.ahead:
        return CheckpointMismatchError(
            f"Batch {batch} in {checkpoint.folder} was dated by a clock that was ahead, and a part of it is in Kafka: "
            "wait until this machine's clock has caught up, then start again; or a new checkpoint folder ('checkback "
            "run --new-checkpoint') delivers what the half topic still has again."
        )
    return CheckpointMismatchError(
        f"Batch {batch} in {checkpoint.folder} is dated before the watermark, and a part of it is in Kafka: a new "
        "checkpoint folder ('checkback run --new-checkpoint') re-delivers everything that is still in the half topic."
    )


def _state_files(checkpoint: Checkpoint, version: int) -> list[str]:
    """The state's files of one version, which is the number of the batch that begins with it."""
    return [
        f"{STATE}/{partition}/{name}"
        for partition in checkpoint.names(STATE)
        if partition.isdigit()
        for name in checkpoint.names(f"{STATE}/{partition}")
        if name in (f"{version}{_CHANGES}", f"{version}{SNAPSHOT}")
    ]
