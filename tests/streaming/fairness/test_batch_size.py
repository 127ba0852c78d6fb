"""How much the next batch may read: the rule, and that Spark keeps to it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import JobStoppedError
from streaming.fairness.batch_size import FIRST_RECORDS, BatchSize, ReadLimit
from streaming.query import kafka_records
from tests.place import Place, wait_until

MIB = 1024 * 1024


def test_small_records_are_soon_read_in_large_batches() -> None:
    size = BatchSize(most_records=200_000, most_bytes=128 * MIB)
    allowed = [size.records, *(size.after(size.records, size.records * 300) for _ in range(4))]
    assert allowed == [4_000, 64_000, 200_000, 200_000, 200_000]


def test_an_idle_job_is_not_allowed_more_for_it() -> None:
    size = BatchSize(200_000, 128 * MIB)
    assert [size.after(3, 900) for _ in range(50)] == [FIRST_RECORDS] * 50
    assert size.after(0, 0) == FIRST_RECORDS


def test_a_flood_of_large_records_makes_the_next_batch_short() -> None:
    size = BatchSize(200_000, 128 * MIB)
    for _ in range(4):
        size.after(size.records, size.records * 300)
    assert size.after(size.records, size.records * MIB) == 128
    assert size.after(128, 128 * MIB) == 128


def test_one_large_record_among_few_changes_little() -> None:
    size = BatchSize(200_000, 128 * MIB)
    for _ in range(4):
        size.after(size.records, size.records * 300)
    assert size.after(2, MIB) == 200_000


def test_it_recovers_when_the_flood_is_over() -> None:
    size = BatchSize(200_000, 128 * MIB)
    size.after(size.records, size.records * MIB)
    for _ in range(30):
        size.after(size.records, size.records * 300)
    assert size.records == 200_000


@given(
    most_records=st.integers(1, 1_000_000),
    most_bytes=st.integers(1, 1 << 40),
    batches=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1 << 20))),
)
def test_it_stays_within_what_was_set_and_never_stops(
    most_records: int, most_bytes: int, batches: list[tuple[float, int]]
) -> None:
    size = BatchSize(most_records, most_bytes)
    for share, weight in batches:
        records = int(size.records * share)
        before = size.records
        after = size.after(records, records * weight)
        assert 1 <= after <= most_records
        assert after <= before * 16


def _limited(
    place: Place, spark: SparkSession, at_batch: Callable[[ReadLimit], None], folder: str
) -> tuple[StreamingQuery, list[int]]:
    counts: list[int] = []
    limit: list[ReadLimit] = []

    def sink(frame: DataFrame, _number: int) -> None:
        counts.append(frame.count())
        if limit:
            at_batch(limit[0])

    settings = place.settings(job={"max_offsets_per_trigger": 7})
    query = kafka_records(spark, settings).writeStream.option("checkpointLocation", folder).foreachBatch(sink).start()
    limit.append(ReadLimit(query))
    return query, counts


def test_spark_reads_what_it_is_told_from_the_next_batch_on(place: Place, spark: SparkSession) -> None:
    producer = place.producer()
    for number in range(60):
        producer.send(place.topics.half, b"value", partition=number % 2)
    producer.close()
    query, counts = _limited(place, spark, lambda limit: limit.set(20), str(place.folder / "limited"))
    try:
        wait_until(lambda: sum(counts) == 60)
    finally:
        query.stop()
    assert counts[0] <= 8
    assert max(counts) >= 19, counts
    assert len(counts) <= 5


def test_another_spark_is_refused_with_a_sentence(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load()
    query = frame.writeStream.format("noop").queryName("none").trigger(once=True).start()
    with pytest.raises(JobStoppedError, match="another version"):
        ReadLimit(query).set(5)
    query.awaitTermination(30)
