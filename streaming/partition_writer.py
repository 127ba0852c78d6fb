"""The sink's task: one state partition of one batch as one Kafka transaction, with its progress in it."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tenacity import retry, retry_if_exception, stop_after_delay, wait_exponential

from checkback.protocol import Topics
from state import Kind
from streaming.progress import Progress, Verdict, judge_progress, progress_group, transactional_id
from streaming.records import RecordBuilder
from streaming.steps import Step, Witness, nothing

_METADATA_SECONDS = 30.0
_OPERATION_SECONDS = 60.0


@dataclass(frozen=True)
class SinkSettings:
    """What a task needs to reach Kafka."""

    bootstrap_servers: str
    topics: Topics
    transaction_timeout_ms: int
    options: dict[str, str] = field(default_factory=dict)
    witness: Witness = nothing
    """Told of each step, in the driver's process and in the tasks'; must be picklable."""

    def client(self, **more: Any) -> dict[str, Any]:
        """Settings of a librdkafka client."""
        common = {"bootstrap.servers": self.bootstrap_servers, "log_level": 2}
        return {**common, **more, **self.options}


@dataclass(frozen=True)
class Batch:
    """One micro-batch, as every task of it knows it."""

    query_id: str
    number: int
    entry_hash: str
    every_partition_writes: bool
    """The first batch after a start, and one a day: so that progress offsets are there, and never expire."""
    floor: int = 0
    """A progress offset that every state partition has reached."""


@dataclass
class PartitionReport:
    """What a task did, for :class:`streaming.sink.ExactlyOnceSink`."""

    partition: int
    written: int = 0
    skipped: bool = False
    counts: str = "{}"


def write_partition(
    settings: SinkSettings, batch: Batch, partition: int, outcomes: Iterator[pa.RecordBatch]
) -> PartitionReport:
    """Write one state partition's outcomes of one batch, once.

    1. Nothing to say, and not a batch in which every partition writes: write nothing.
    2. A fresh producer under the partition's transactional id fences every earlier one and settles what it
       left half done.
    3. Only now is the progress offset read: nobody else can move it any more without being noticed.
    4. It says skip: drain the rows, so that the state store commits.
    5. Write all rows in one transaction.
    6. Put the new progress offset into the same transaction, and commit.
    """
    report = PartitionReport(partition)
    filled = (rows for rows in outcomes if rows.num_rows)
    first = next(filled, None)
    if first is None and not batch.every_partition_writes:  # 1
        return report
    rows = chain([first] if first is not None else [], filled)
    producer = _fresh_producer(settings, batch, partition)  # 2
    partitions = _partitions_by_topic(producer)
    producer.init_transactions(_OPERATION_SECONDS)
    place = TopicPartition(settings.topics.progress, partition)
    consumer = _progress_consumer(settings, batch.query_id)
    progress = _read_progress(consumer, place)  # 3
    if judge_progress(progress, batch.number, batch.entry_hash, partition, batch.floor) is Verdict.SKIP:  # 4
        for _ in rows:
            pass
        report.skipped = True
        return report
    settings.witness(Step.BEFORE_TRANSACTION, batch.number)
    producer.begin_transaction()  # 5
    counts: Counter[str] = Counter()
    builder = RecordBuilder(settings.topics, partitions)
    for piece in rows:
        report.written += _produce(producer, builder, piece)
        _count(piece, counts)
        settings.witness(Step.IN_TRANSACTION, batch.number)
    settings.witness(Step.STATE_COMMITTED, batch.number)
    done = TopicPartition(place.topic, partition, batch.number + 1, batch.entry_hash)  # 6
    producer.send_offsets_to_transaction([done], consumer.consumer_group_metadata(), _OPERATION_SECONDS)
    # commit_transaction waits for delivery reports that only poll and flush take off the queue
    producer.flush(settings.transaction_timeout_ms / 1000)
    producer.commit_transaction(settings.transaction_timeout_ms / 1000)
    settings.witness(Step.AFTER_TRANSACTION, batch.number)
    report.counts = json.dumps(counts)
    return report


def _fresh_producer(settings: SinkSettings, batch: Batch, partition: int) -> Producer:
    return Producer(
        settings.client(
            **{
                "transactional.id": transactional_id(batch.query_id, partition),
                "transaction.timeout.ms": settings.transaction_timeout_ms,
                # the first try falls before the socket is up: without this the next one waits 100 ms
                "reconnect.backoff.ms": 10,
                "partitioner": "murmur2_random",  # Java's default, which librdkafka's own is not
                "linger.ms": 20,
                # librdkafka's default is below Kafka's own; what a topic takes is for the broker to say
                "message.max.bytes": 100_000_000,
                "batch.size": 262_144,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 131_072,
            }
        )
    )


def _partitions_by_topic(producer: Producer) -> dict[str, int]:
    # Asked for before init_transactions, which is quicker on a connection that is up.
    topics = producer.list_topics(timeout=_METADATA_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


_consumers: dict[tuple[str, str], Consumer] = {}


def _progress_consumer(settings: SinkSettings, query_id: str) -> Consumer:
    """One for each worker process: unlike producers, they fence nobody and can be kept across batches."""
    key = (settings.bootstrap_servers, query_id)
    if key not in _consumers:
        group = {"group.id": progress_group(query_id), "isolation.level": "read_committed"}
        _consumers[key] = Consumer(settings.client(**group, **{"enable.auto.commit": False}))
    return _consumers[key]


# A coordinator that moves or has just started says so for a moment.
_PASSING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._WAIT_COORD,  # noqa: SLF001  (librdkafka's own codes have a leading underscore)
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)


@retry(
    retry=retry_if_exception(lambda error: isinstance(error, KafkaException) and error.args[0].code() in _PASSING),
    wait=wait_exponential(0.05, max=1),
    stop=stop_after_delay(_OPERATION_SECONDS),
    reraise=True,
)
def _read_progress(consumer: Consumer, place: TopicPartition) -> Progress:
    (found,) = consumer.committed([TopicPartition(place.topic, place.partition)], timeout=_OPERATION_SECONDS)
    return Progress(None) if found.offset < 0 else Progress(found.offset, found.metadata or "")


def _produce(producer: Producer, builder: RecordBuilder, piece: pa.RecordBatch) -> int:
    written = 0
    for topic, partition, key, value, headers in builder.build(piece):
        while True:
            try:
                producer.produce(topic, value, key, partition, headers=headers)  # type: ignore[arg-type] # lists are invariant
                break
            except BufferError:  # bounded memory: wait until some are out
                producer.poll(0.05)
        written += 1
    producer.poll(0)
    return written


def _count(piece: pa.RecordBatch, counts: Counter[str]) -> None:
    chosen = piece.filter(pa.compute.equal(piece.column("kind"), int(Kind.COUNT)))
    for name, number in zip(chosen.column("reason").to_pylist(), chosen.column("half_offset").to_pylist(), strict=True):
        counts[name] += number
