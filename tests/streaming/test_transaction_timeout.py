"""What becomes of a batch that takes longer than its Kafka transaction may, on a real Kafka."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import kafka
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer

from checkback.exceptions import ConfigurationError, TransactionTimeoutError
from checkback.local import LocalKafka
from streaming.batch.batch import Batch, PartitionReport
from streaming.batch.failpoints import Failpoint
from streaming.batch.record import Record
from streaming.brokers.client import SinkSettings, producer_settings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.kafka_sink import transaction
from streaming.kafka_sink.partition_writer import write_partition
from streaming.kafka_sink.topic_limits import KnownLimits, TopicLimits
from streaming.kafka_sink.transaction import KafkaTransaction
from tests.place import Place, wait_until
from tests.streaming.outcomes import outcome, rows

TIMEOUT_MS = 1_000


@pytest.fixture(scope="module")
def strict() -> Iterator[LocalKafka]:
    """A broker that looks often for transactions whose time is over, and allows a minute at most."""
    properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    properties["transaction.max.timeout.ms"] = "60000"
    with LocalKafka(properties=properties) as kafka:
        yield kafka


@pytest.fixture
def here(strict: LocalKafka, place: Place) -> Place:
    made = place.on(strict.bootstrap_servers)
    made.create_topics(real_partitions=1)
    return made


def write(
    place: Place,
    outcomes: Iterator[pa.RecordBatch],
    failpoint: Callable[[Failpoint, int], None] = lambda _step, _batch: None,
    timeout_ms: int = TIMEOUT_MS,
) -> PartitionReport:
    settings = SinkSettings(place.bootstrap_servers, place.topics, timeout_ms, {"linger.ms": "0"}, failpoint)
    batch = Batch(uuid.uuid4().hex, 0, "hash", every_partition_writes=False)
    return write_partition(settings, batch, 0, outcomes)


class Aborted:
    """Waits until Kafka has ended the transaction that has written to the real topic."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ends = 0

    def wait(self) -> None:
        here = kafka.TopicPartition(self._place.real_topic, 0)
        servers, levels = self._place.bootstrap_servers, ("read_committed", "read_uncommitted")
        committed, written = (KafkaConsumer(bootstrap_servers=servers, isolation_level=level) for level in levels)

        def ended() -> bool:
            end = written.end_offsets([here])[here]
            # records and a marker, and nothing open
            return bool(end >= self._ends + 2 and committed.end_offsets([here])[here] == end)

        wait_until(ended, "the end of the transaction")
        self._ends = written.end_offsets([here])[here]
        committed.close()
        written.close()


def wait_until_readable(here: Place, values: list[bytes]) -> None:
    """Kafka acknowledges the end of a transaction before its readers see it."""
    wait_until(lambda: [record.value for record in here.read(here.real_topic)] == values, f"{values} to be readable")


def test_a_batch_whose_evaluation_took_too_long_is_written_again_at_once(here: Place) -> None:
    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows(outcome(here.real_topic, value=b"1"))
        Aborted(here).wait()
        yield from rows(outcome(here.real_topic, value=b"2"))

    report = write(here, slow())
    assert (report.written, report.skipped) == (2, False)
    wait_until_readable(here, [b"1", b"2"])
    assert len(here.read(here.real_topic, "read_uncommitted")) >= 3


def test_a_batch_whose_writing_takes_too_long_says_what_to_set(here: Place) -> None:
    aborted = Aborted(here)

    def wait(step: Failpoint, _: int) -> None:
        if step is Failpoint.STATE_COMMITTED:
            aborted.wait()

    with pytest.raises(TransactionTimeoutError, match=r"longer than job\.sink_transaction_timeout \(1 s\)"):
        write(here, rows(outcome(here.real_topic)), wait)
    assert here.read(here.real_topic) == []
    write(here, rows(outcome(here.real_topic)))
    wait_until(lambda: len(here.read(here.real_topic)) == 1, "the record to be readable")


def slowly(topic: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Rows that come one by one, for longer than Kafka's refusal of one takes to get here."""
    for number in range(first, first + count):
        yield from rows(outcome(topic, value=b"%d" % number))
        time.sleep(0.05)


def test_a_transaction_that_times_out_while_rows_arrive_is_written_again_at_once(here: Place) -> None:
    passes: list[Failpoint] = []

    def slow() -> Iterator[pa.RecordBatch]:
        yield from rows(outcome(here.real_topic, value=b"0"))
        Aborted(here).wait()
        yield from slowly(here.real_topic, 1, 20)
        assert len(passes) == 1, "the second transaction is not open while rows are evaluated"

    report = write(here, slow(), lambda step, _: passes.append(step) if step is Failpoint.BEFORE_TRANSACTION else None)
    assert (report.written, len(passes)) == (21, 2)
    wait_until_readable(here, [b"%d" % number for number in range(21)])


def test_a_transaction_that_times_out_twice_while_rows_are_written_says_what_to_set(here: Place) -> None:
    aborted = Aborted(here)
    pieces = 0

    def wait(step: Failpoint, _: int) -> None:
        nonlocal pieces
        if step is Failpoint.BEFORE_TRANSACTION:
            pieces = 0
        if step is Failpoint.IN_TRANSACTION:
            pieces += 1
            if pieces == 1:
                aborted.wait()
            time.sleep(0.05)

    with pytest.raises(TransactionTimeoutError, match=r"longer than job\.sink_transaction_timeout \(1 s\)"):
        write(here, slowly(here.real_topic, 0, 20), wait)
    assert here.read(here.real_topic) == []


@pytest.mark.parametrize("call", ["produce", "produce many", "flush", "commit"])
def test_whatever_call_finds_it_out_says_so(here: Place, call: str) -> None:
    plain = {"bootstrap.servers": here.bootstrap_servers, "log_level": 0}
    client = {**plain, **producer_settings(uuid.uuid4().hex, TIMEOUT_MS), "linger.ms": "0"}
    transaction = KafkaTransaction(client, TIMEOUT_MS, TopicDirectory(Brokers(plain)), here.topics.progress)
    group = Consumer({**plain, "group.id": uuid.uuid4().hex}).consumer_group_metadata()
    done = TopicPartition(here.topics.progress, 0, 1)
    record = Record(here.real_topic, 0, None, b"v", [])
    transaction.open()
    # records for a narrow topic are kept until the commit, which then flushes before it does anything else
    transaction.begin(KnownLimits({here.real_topic: TopicLimits(fits=1_000)} if call == "flush" else {}))
    transaction.produce([record, record])
    if call == "flush":
        transaction._narrow.write(transaction._write, transaction._flush)  # type: ignore[union-attr]  # on purpose, for this test
    Aborted(here).wait()

    def find_out() -> None:
        if call == "flush":
            transaction.produce([record])
        deadline = time.monotonic() + 10
        while call.startswith("produce") and time.monotonic() < deadline:
            transaction.produce([record] * (1_000 if call == "produce many" else 1))
        transaction.commit([done], group)

    with pytest.raises(KafkaException) as error:
        find_out()
    failed = transaction.failed(error.value.args[0], [done], group)
    assert isinstance(failed, TransactionTimeoutError)


def test_a_timeout_longer_than_the_brokers_allow(here: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"sink_transaction_timeout \(61 s\).*transaction\.max\.timeout\.ms"):
        write(here, rows(outcome(here.real_topic)), timeout_ms=61_000)


def test_the_default_is_within_what_brokers_allow_by_default(place: Place) -> None:
    default_ms = place.settings().job.sink_transaction_timeout
    assert default_ms > 2 * 60_000
    assert write(place, rows(outcome(place.real_topic)), timeout_ms=default_ms).written == 1


def test_a_broker_that_restarts_while_a_batch_is_written_fails_nothing(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # shorter than any start of a broker, so that it is away for longer than one call waits
    monkeypatch.setattr(transaction, "_OPERATION_SECONDS", 0.5)
    with LocalKafka(tmp_path / "data", heap_megabytes=256) as kafka:
        here = place.on(kafka.bootstrap_servers)
        here.create_topics(real_partitions=1)
        starting = Thread(target=kafka.start)

        def breaking() -> Iterator[pa.RecordBatch]:
            yield from rows(outcome(here.real_topic, value=b"1"))
            kafka.kill()
            starting.start()
            yield from rows(outcome(here.real_topic, value=b"2"))

        report = write(here, breaking(), timeout_ms=120_000)
        starting.join()
        assert report.written == 2
        wait_until_readable(here, [b"1", b"2"])
