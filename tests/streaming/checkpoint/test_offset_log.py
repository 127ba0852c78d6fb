"""What a power loss may leave of an entry, and whether Spark would drop a batch's rows."""

import pytest

from streaming.checkpoint.offset_log import committed_watermark_ms, read_entry, shuffle_partitions

METADATA = b'{"batchWatermarkMs":%d,"batchTimestampMs":%d,"conf":{}}'
WHOLE = b"v1\n" + METADATA % (1_000, 2_000) + b'\n{"cb.half":{"0":63},"cb.op":{"0":1}}\n15'


def test_a_whole_entry() -> None:
    entry = read_entry(7, WHOLE)
    assert entry is not None
    assert (entry.number, entry.watermark_ms, entry.time_ms, entry.late) == (7, 1_000, 2_000, False)
    assert entry.sources == ({"cb.half": {"0": 63}, "cb.op": {"0": 1}}, 15)


def test_every_shorter_entry_is_torn() -> None:
    last_number = 1  # of its two digits one is a number, too; the file's checksum tells
    assert [length for length in range(len(WHOLE) - last_number) if read_entry(7, WHOLE[:length])] == []
    assert read_entry(7, bytes(len(WHOLE))) is None


@pytest.mark.parametrize(("time_ms", "late"), [(1_001, False), (1_000, True), (999, True)])
def test_a_batch_at_or_before_the_watermark_is_late(time_ms: int, late: bool) -> None:  # noqa: FBT001  (a table)
    entry = read_entry(7, b"v1\n" + METADATA % (1_000, time_ms) + b"\n{}\n1")
    assert entry is not None
    assert entry.late is late


def test_a_file_of_the_commit_log() -> None:
    assert committed_watermark_ms(b'v1\n{"nextBatchWatermarkMs":5}') == 5
    for torn in (b"", b"v1", b"v1\n", b'v1\n{"nextBatch', bytes(30)):
        assert committed_watermark_ms(torn) is None


def test_how_many_partitions_the_state_has() -> None:
    conf = b'{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":{"spark.sql.shuffle.partitions":"5"}}'
    assert shuffle_partitions(b"v1\n" + conf + b"\n{}\n1") == 5
    assert shuffle_partitions(WHOLE) is None
    assert shuffle_partitions(b"v1\n" + conf[:-3]) is None
