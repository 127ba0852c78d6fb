"""What a start may give up of the newest batch: nothing that is in Kafka."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError
from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.offset_log import Entry
from streaming.checkpoint.progress import Progress
from streaming.checkpoint.repair import CheckpointCondition, examine, repairs

NOW, DAY, TOLERANCE = 1_767_225_600_000, 86_400_000, 600_000
BEGUN = 7


class Folder:
    """As much of a checkpoint as is asked: two state partitions, whole entries."""

    folder = "/data/checkpoint"

    def names(self, folder: str) -> list[str]:
        states = {"state/0/0": ["7.changelog", "8.changelog"], "state/0/1": ["7.changelog"]}
        return {"state/0": ["0", "1"], **states}[folder]

    def entry(self, batch: int) -> Entry:
        return Entry(batch, "", NOW, 0)


FOLDER = cast("Checkpoint", Folder())


def written(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)


def dated(time_ms: int, *, watermark_ms: int = NOW - TOLERANCE, committed: int = BEGUN - 1) -> CheckpointCondition:
    entry = Entry(BEGUN, "hash", time_ms, watermark_ms)
    return CheckpointCondition(BEGUN, entry, committed, watermark_ms, horizon_ms=NOW + TOLERANCE)


def progress(*offsets: int) -> list[Progress]:
    return [Progress(offset) for offset in offsets]


@pytest.mark.parametrize("time_ms", [NOW + 4 * DAY, NOW + TOLERANCE + 1, NOW - TOLERANCE, NOW - DAY])
def test_a_batch_dated_wrongly_is_given_up_with_its_state_while_kafka_has_nothing_of_it(time_ms: int) -> None:
    found = dated(time_ms)
    assert found.given_up
    assert repairs(FOLDER, found, progress(BEGUN, BEGUN)) == ["state/0/0/8.changelog", f"offsets/{BEGUN}"]


def test_a_batch_that_ends_in_the_clock_before_it_begins_is_given_up(spark: SparkSession, tmp_path: Path) -> None:
    for number, seconds in enumerate([1_380, 1_386, 1_016]):
        entry = b'v1\n{"batchWatermarkMs":%d,"batchTimestampMs":%d,"conf":{}}\n{}\n%d'
        written(tmp_path / f"offsets/{number}", entry % (NOW - TOLERANCE, NOW, seconds))
    written(tmp_path / "commits/1", b'v1\n{"nextBatchWatermarkMs":%d}' % (NOW - TOLERANCE))
    checkpoint = Checkpoint(spark, str(tmp_path))
    found = examine(checkpoint, NOW + TOLERANCE)
    assert found.given_up
    assert repairs(checkpoint, found, progress(2, 2)) == ["offsets/2"]


@pytest.mark.parametrize("time_ms", [NOW, NOW + TOLERANCE, NOW - TOLERANCE + 1])
def test_a_batch_within_the_tolerance_is_run(time_ms: int) -> None:
    found = dated(time_ms)
    assert not found.given_up
    assert repairs(FOLDER, found, progress(BEGUN, BEGUN + 1)) == []


@pytest.mark.parametrize(
    ("time_ms", "said"),
    [
        (NOW + 4 * DAY, "a clock that was ahead, and a part of it is in Kafka: wait"),
        (NOW - DAY, "before the watermark"),
    ],
)
def test_what_kafka_has_a_part_of_is_never_given_up(time_ms: int, said: str) -> None:
    with pytest.raises(CheckpointMismatchError, match=said):
        repairs(FOLDER, dated(time_ms), progress(BEGUN, BEGUN + 1))


def test_a_finished_batch_stays_whatever_its_date() -> None:
    found = dated(NOW + 4 * DAY, committed=BEGUN)
    assert (found.given_up, found.ahead) == (False, True)
    assert repairs(FOLDER, found, progress(BEGUN + 1, BEGUN + 1)) == []


def test_a_torn_snapshot_goes_and_its_batch_stays_though_kafka_has_a_part_of_it() -> None:
    torn = CheckpointCondition(BEGUN, Entry(BEGUN, "", NOW, 0), BEGUN - 1, 0, torn_snapshots=("state/0/0/7.zip",))
    assert not torn.given_up
    assert repairs(FOLDER, torn, progress(BEGUN, BEGUN + 1)) == ["state/0/0/7.zip"]
