"""What kafka-python has fetched, and what becomes of it where a record or a batch cannot be decoded. No Kafka."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition, codec
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from checkback.exceptions import InstallationError
from checkback.kafka.kafka_python import polling
from tests.by_hand import NOT_UTF_8, Name, Record

PLACE = TopicPartition("orders", 3)
GOOD: Record = (b"good", b"1", [(b"name", b"1")])
ODD: Record = (b"odd", None, [(b"cb-id", b"1"), (b"na" + NOT_UTF_8 + b"me", b"2"), (b"", None)])
NO_COMPRESSION, ZSTD = 0, 4


def batch(*records: Record, compression: int = NO_COMPRESSION) -> bytes:
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 100_000_000)  # noqa: FBT003  (that is its signature)
    for number, (key, value, headers) in enumerate(records):
        builder.append(number, -5, key, value, [(Name(name), content) for name, content in headers])
    return bytes(builder.build())


def fetched(*batches: bytes) -> Any:
    """As a consumer's poll has it, whose fetcher has the class that is used there."""
    fetcher = SimpleNamespace(PartitionRecords=Fetcher.PartitionRecords, _next_partition_records=None)
    consumer: Any = SimpleNamespace(_fetcher=fetcher, _coordinator=None, poll=lambda **_: {})
    polling.poll(consumer)
    return fetcher.PartitionRecords(0, PLACE, MemoryRecords(b"".join(batches)))


@pytest.mark.parametrize("compression", range(5))
def test_of_a_record_with_an_odd_name_all_is_given_and_of_those_around_it(compression: int) -> None:
    """kafka-python alone gives nothing behind it, in the same batch."""
    rest: list[Record] = [GOOD, ODD, ODD, GOOD]
    records = fetched(batch(*rest, compression=compression), batch(GOOD)).take()
    expected = [(key, value, -5) for key, value, _ in (*rest, GOOD)]
    assert [(one.key, one.value, one.timestamp) for one in records] == expected
    plain, escaped = [("name", b"1")], [("cb-id", b"1"), ("na\\xff\\xfeme", b"2"), ("", None)]
    assert [one.headers for one in records] == [plain, escaped, escaped, plain, plain]
    assert [type(one.headers) is polling.EscapedHeaders for one in records] == [False, True, True, False, False]
    assert [one.offset for one in records] == [0, 1, 2, 3, 0]


def test_the_last_record_of_all_may_be_the_odd_one() -> None:
    given = fetched(batch(GOOD, ODD))
    assert [one.key for one in given.take(1)] == [b"good"]
    assert [one.key for one in given.take(10)] == [b"odd"]
    assert not given
    assert given.next_fetch_offset == 2


@pytest.mark.parametrize("spoilt", [-1, 70])
def test_what_is_damaged_is_not_given_and_not_passed_over(spoilt: int) -> None:
    """With an odd name in it, too."""
    whole = bytearray(batch(GOOD, ODD, GOOD))
    whole[spoilt] ^= 1
    given = fetched(batch(GOOD), bytes(whole))
    assert len(given.take()) == 1
    for _ in range(3):
        with pytest.raises(CorruptRecordError):
            given.take()
    assert given.next_fetch_offset == 1


def test_what_is_compressed_by_something_unknown_here_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = batch((b"odd", b"o" * 1_000, []), compression=ZSTD)
    monkeypatch.setattr(codec, "zstd", None)
    given = fetched(batch(GOOD), packed)
    fetcher = SimpleNamespace(PartitionRecords=None, _next_partition_records=given)
    consumer: Any = SimpleNamespace(_fetcher=fetcher, _coordinator=None, poll=lambda **_: given.take())
    assert len(polling.poll(consumer)) == 1
    for _ in range(3):
        with pytest.raises(InstallationError, match=r"orders-3 are compressed with zstd.*pip install zstandard\."):
            polling.poll(consumer)
    assert given.next_fetch_offset == 1
