"""The sink's task: one state partition of one batch as one Kafka transaction, with its progress in it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from time import time_ns
from typing import Any, TypeVar

import pyarrow as pa

from checkback.exceptions import TakenOverError, TransactionTimeoutError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, KafkaException, TopicPartition
from checkback.wire.groups import claim_group, metadata_of
from checkback.wire.json_reading import read_object
from checkback.wire.protocol import Topics
from checkback.wire.signed_records import SigningKey
from conf.secrets_file import own_key
from state import TIMER, Tallies, Usages, add_open, counts_of, summed, usages_of
from streaming.batch.batch import (
    SIZES,
    Batch,
    OpenBySegment,
    PartitionReport,
    counts_to_json,
    open_to_json,
)
from streaming.batch.failpoints import Failpoint
from streaming.batch.signing import Signing
from streaming.brokers.client import SinkSettings
from streaming.brokers.directory import Brokers, Known, TopicDirectory
from streaming.brokers.retrying import retrying
from streaming.checkpoint.progress import ProgressVerdict, judge_progress, progress_group
from streaming.kafka_sink.beginning import Beginning
from streaming.kafka_sink.content import Contents
from streaming.kafka_sink.delivery_spans import DeliverySpans
from streaming.kafka_sink.half_reader import HalfReader
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import Ask, Pace, RecordBuilder
from streaming.kafka_sink.refusals import Refusals
from streaming.kafka_sink.spill import ReplayableBatches
from streaming.kafka_sink.topic_limits import KnownLimits, LearnedLimits
from streaming.kafka_sink.transaction import KafkaTransaction, TopicsRefusedError
from streaming.ownership.generations import Generations

T = TypeVar("T")
_PASSES = 8
"""Passes over one batch at most that find out nothing. Two do when all that refused something can be asked about."""
_MOST_PASSES = 50
"""Passes over one batch at most. Each shows about five more topics that refuse whatever they get."""
_SECONDS = 60.0


def write_partition(
    settings: SinkSettings, batch: Batch, partition: int, outcomes: Iterator[pa.RecordBatch]
) -> PartitionReport:
    """Write one state partition's outcomes of one batch, once.

    1. Nothing to say, and not a batch in which every partition writes: write nothing.
    2. A fresh producer under the partition's transactional id fences every earlier one and settles what it
       left half done.
    3. Only now is the progress offset read: nobody else can move it any more without being noticed. Nor may another
       run have taken over since the batch was begun: it may have put the batch under other rules.
    4. It says skip: read the rows all the same, so that the state store commits, and for what they say of the state.
    5. Write all rows in one transaction, until their end was seen: ``outcomes`` must not end unless it is whole (see
       ``streaming.python_worker.whole_input``), and one that has raised is never taken for one that has ended.
    6. Put the new progress offset into the same transaction, and commit.
    7. Kafka refused records: abort, find out which, and go back to 2. Those are held then, or left to operators.
       ``outcomes`` is pulled once, whatever happens.

    Raises:
        InputCutShortError: rows are missing. Nothing is committed.
        OwnTopicError: one of Checkback's own topics refuses a record.
        TakenOverError: another run has taken over.
        TransactionTimeoutError: it took longer than the transaction time-out, twice.
        ProgressError, ConfigurationError: see ``judge_progress`` and ``KafkaTransaction.open``.
        KafkaException: what is not a record's fault: brokers away, fenced by another task.
    """
    with ReplayableBatches(outcomes, settings.kept_bytes) as batches:
        if batches.empty and not batch.every_partition_writes:  # 1
            batches.refuse_missing()
            return PartitionReport(partition)
        return _Task(settings, batch, partition, batches).run()


class _Task:
    """Steps 2 to 7."""

    def __init__(self, settings: SinkSettings, batch: Batch, partition: int, batches: ReplayableBatches) -> None:
        self._settings = settings
        self._batch = batch
        self._partition = partition
        self._batches = batches
        self._consumer = _consumer(settings, progress_group(batch.query_id), "read_committed")
        self._done = TopicPartition(settings.topics.progress, partition, batch.number + 1, batch.entry_hash)
        self._beginning = Beginning(
            settings.client(),
            batch.query_id,
            settings.transaction_timeout_ms,
            self._done,
            (self._consumer, _generations(settings, batch.query_id)),
            _directory(settings),
        )
        self._ask: Ask | None = None
        key = _own_key(settings)
        signing = None if key is None else Signing(key, batch.dated_ms or time_ns() // 1_000_000)
        self._holding = Holding(settings.topics.half, batch.time_ms, settings.redeliver_for_ms, signing)

    def run(self) -> PartitionReport:
        refusals = Refusals(
            self._beginning.client,
            self._settings.client(),
            self._builder,
            _known_topics(self._settings),
            self._batches,
            self._batch.dated_ms,
        )
        self._ask = refusals.again
        timed_out = False
        limits = refusals.known()
        fruitless = 0
        for number in range(1, _MOST_PASSES + 1):
            last = fruitless == _PASSES - 1 or number == _MOST_PASSES
            try:
                return self._pass(limits)
            except TopicsRefusedError as refused:  # 7
                if last:
                    raise KafkaException(refused.cause) from refused
                _directory(self._settings).doubt(refused.topics)  # made again with fewer partitions, perhaps
                before, limits = limits, refusals.found(refused, limits)
                fruitless += before == limits
            except TransactionTimeoutError:
                if timed_out or last:
                    raise
                timed_out = True
                self._batches.pull()  # so that this time the transaction is open for the writing alone
        raise AssertionError  # unreachable

    def _pass(self, limits: KnownLimits) -> PartitionReport:
        transaction, progress = self._beginning.open()  # 2, 3
        topics = self._settings.topics
        claims = _consumer(self._settings, claim_group(topics), "read_uncommitted")
        refuse_another_run(claims, topics, self._batch.run)
        verdict = judge_progress(
            progress, self._batch.number, self._batch.entry_hash, self._partition, self._batch.floor
        )
        if verdict is ProgressVerdict.SKIP:  # 4
            return self._skipped()
        try:
            return self._written(transaction, limits)
        except KafkaException as error:
            group = self._consumer.consumer_group_metadata()
            raise transaction.failed(error.args[0], [self._done], group) from error
        except Exception:
            transaction.abort()
            raise

    def _skipped(self) -> PartitionReport:
        """What happened is not reported twice; only this report tells the driver how the state stands now."""
        report = PartitionReport(self._partition, skipped=True)
        sizes, usages, timers = Counter[str](), list[Usages](), Tallies()
        still_open: OpenBySegment = {}
        for piece in self._batches:
            counts = counts_of(piece)
            sizes.update({name: number for name, number in counts.plain.items() if name in SIZES})
            timers.update({tally: number for tally, number in counts.told_apart.items() if tally.name == TIMER})
            add_open(piece, still_open)
            usages.append(usages_of(piece))
        self._batches.refuse_missing()
        report.counts, report.usages = json.dumps(sizes), json.dumps(summed(usages))
        report.still_open, report.tallies = open_to_json(still_open), counts_to_json(timers)
        return report

    def _written(self, transaction: KafkaTransaction, limits: KnownLimits) -> PartitionReport:
        settings, number = self._settings, self._batch.number
        report = PartitionReport(self._partition)
        counts, told_apart = Counter[str](), Tallies()
        still_open: OpenBySegment = {}
        usages: list[Usages] = []
        settings.failpoint(Failpoint.BEFORE_TRANSACTION, number)
        transaction.begin(limits, self._batch.dated_ms)  # 5
        builder = self._builder(transaction.known, limits, self._ask, transaction.pace_ms)
        spans = DeliverySpans(settings.topics.all()) if settings.tracing else None
        for piece in self._batches:
            records = builder.build(piece)
            report.written += transaction.produce(spans.watched(records) if spans else records)
            found = counts_of(piece)
            counts.update(found.plain)
            told_apart.update(found.told_apart)
            add_open(piece, still_open)
            usages.append(usages_of(piece))
            settings.failpoint(Failpoint.IN_TRANSACTION, number)
        self._batches.refuse_missing()
        settings.failpoint(Failpoint.STATE_COMMITTED, number)
        renewal = self._beginning.renewal() if self._batch.every_partition_writes else None
        transaction.commit([self._done], self._consumer.consumer_group_metadata(), renewal)  # 6
        settings.failpoint(Failpoint.AFTER_TRANSACTION, number)
        if spans:
            spans.committed()
        report.counts = json.dumps(counts + builder.counts)
        report.usages = json.dumps(summed(usages))
        report.tallies = counts_to_json(told_apart)
        report.still_open = open_to_json(still_open)
        report.reasons = builder.reasons.to_json()
        report.held = counts_to_json(builder.held)
        report.refused = counts_to_json(builder.refused.counts)
        return report

    def _builder(self, known: Known, limits: KnownLimits, ask: Ask | None, pace: Pace | None = None) -> RecordBuilder:
        contents = contents_of(self._settings)
        builder = RecordBuilder(self._settings.topics, known, self._holding, limits, ask, pace, contents)
        builder.ask_limit_ms = self._settings.ask_limit_ms
        return builder


_made: dict[tuple[str, ...], Any] = {}


def _of_worker(make: Callable[[], T], *key: str) -> T:
    """What ``make`` gives: one for each worker process and ``key``, kept across batches."""
    if key not in _made:
        _made[key] = make()
    made: T = _made[key]
    return made


def _known_topics(settings: SinkSettings) -> LearnedLimits:
    return _of_worker(LearnedLimits, "limits", settings.bootstrap_servers)


def _own_key(settings: SinkSettings) -> SigningKey | None:
    return _of_worker(lambda: own_key(settings.access), "key", settings.access.key) if settings.access.key else None


def _directory(settings: SinkSettings) -> TopicDirectory:
    """With a connection that is up."""
    return _of_worker(lambda: TopicDirectory(Brokers(settings.client())), "directory", settings.bootstrap_servers)


def _consumer(settings: SinkSettings, group: str, isolation: str) -> Consumer:
    """Unlike producers, they fence nobody and can be kept."""
    options = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
    return _of_worker(partial(make_client, Consumer, settings.client(**options)), settings.bootstrap_servers, group)


def contents_of(settings: SinkSettings) -> Contents:
    """Reads with one connection for each worker process, made when it is needed first."""
    half, servers = settings.topics.half, settings.bootstrap_servers
    reader = partial(_of_worker, lambda: HalfReader(settings.client(), half), "reader", servers, half)
    return Contents(settings.topics, reader)


def _generations(settings: SinkSettings, query_id: str) -> Generations:
    made = partial(Generations, settings.client(), query_id, settings.topics.progress)
    return _of_worker(made, "generations", settings.bootstrap_servers, query_id)


def refuse_another_run(consumer: Consumer, topics: Topics, run: str) -> None:
    """Refuse to write for a run that another one has taken the topics from.

    A start takes the claim, then fences the producers of earlier runs. A task of such a run that has none yet gets one
    after that, and nothing in Kafka would keep it from writing its batch, which the start may have put under other
    rules meanwhile. So a task looks at the claim when nobody can fence it unnoticed any more: it has its producer. If
    that came before the fence it is fenced; if after, the claim is another run's.

    Args:
        consumer: of :func:`claim_group`.
        topics: whose claim it is.
        run: :attr:`streaming.ownership.claim.Owner.run` of the run that began the batch; empty: it has
            claimed nothing.

    Raises:
        TakenOverError: one has.
        KafkaException: Kafka does not say, for a minute.
    """
    if not run:
        return
    (found,) = retrying(_SECONDS)(committed, consumer, [TopicPartition(topics.progress, 0)])
    if found.offset >= 0 and _run(metadata_of(found)) not in {None, run}:
        raise TakenOverError(
            f"Another job has taken {topics.half} over since this batch was begun: nothing was written."
        )


def _run(metadata: str) -> str | None:
    try:
        return str(read_object(metadata)["run"])
    except (ValueError, KeyError):
        return None
