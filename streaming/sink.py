"""The exactly-once sink: each state partition of a batch is one Kafka transaction, with its progress in it."""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from access.refusals import Refused
from checkback.exceptions import CheckbackError, InputCutShortError
from state import Tally, Usage, summed
from streaming.batch.batch import Batch, BatchReport, HeldUntil, PartitionReport, open_by_segment, summed_counts
from streaming.batch.failpoints import Failpoint
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.half_logs import HalfLogs
from streaming.idle_wait import IdleWait
from streaming.kafka_sink.partition_writer import contents_of, write_partition
from streaming.kafka_sink.reasons import reasons_of
from streaming.ownership.preconditions import BatchPreconditions
from streaming.python_worker.preparation import name_worker, prepare_worker
from streaming.python_worker.prepared_map import BatchFunction, PreparedMap
from streaming.python_worker.whole_input import whole
from streaming.tables.publishing import Publisher
from streaming.tables.staging import StagedFile, Staging, StagingPlan

_LOGGER = logging.getLogger(__name__)
_SPARK_TYPES = {int: "long", bool: "boolean", str: "string"}
_REPORT_SCHEMA = ", ".join(f"{one.name} {_SPARK_TYPES[one.type]}" for one in fields(PartitionReport))  # type: ignore[index]  # these three
_DAY_SECONDS = 24 * 3600.0


class StopRequestedError(CheckbackError):
    """Ends the query between two batches; nothing of the next one has been evaluated."""


class ExactlyOnceSink:
    """The function ``foreachBatch`` calls: evaluates the batch once and has each partition written.

    Guarantees: the records of batch n of a partition are visible to ``read_committed`` consumers once, however
    often the batch is run; another driver or a zombie task on the same checkpoint cannot write beside it. So are the
    rows of batch n in each table that rules send messages to.

    1. The tasks write to Kafka, and stage what tables get; each has reported.
    2. Each table takes what was staged for it. A crash before Spark's commit log has the batch brings both steps
       again; Kafka and each table that has the batch then change nothing.
    """

    def __init__(
        self,
        settings: SinkSettings,
        checkpoint: Checkpoint,
        preconditions: BatchPreconditions,
        state_partitions: int,
        observer: Callable[[BatchReport], None] | None = None,
        publisher: Publisher | None = None,
        half_logs: HalfLogs | None = None,
    ) -> None:
        self._idle: IdleWait | None = None
        self._half_logs = half_logs
        self._state_partitions = state_partitions
        self._publisher = publisher
        self._settings = settings
        self._write = PreparedMap(_writer(settings), _REPORT_SCHEMA)
        self._checkpoint = checkpoint
        self._preconditions = preconditions
        self._floor = checkpoint.floor()
        self._observer = observer
        self._all_wrote_at: float | None = None
        self._stopping = False
        self._before_evaluation: Callable[[int], None] = lambda _batch: None

    def around_batches(self, before: Callable[[int], None], idle: IdleWait | None = None) -> None:
        """Call ``before`` before each evaluation, in its thread, and wait after batches without work.

        What ``before`` raises ends the query.
        """
        self._before_evaluation, self._idle = before, idle

    def stop_before_next_batch(self) -> None:
        """Let the batch in hand be finished, and end the query with :class:`StopRequestedError` at the next one."""
        self._stopping = True
        if self._idle is not None:
            self._idle.stop()

    def __call__(self, outcomes: DataFrame, number: int) -> None:
        """Write one batch."""
        if self._stopping:
            raise StopRequestedError("The job was asked to stop.")
        self._settings.failpoint(Failpoint.BATCH_STARTS, number)
        entry = self._checkpoint.entry(number)
        dated_ms = self._preconditions.before(entry)
        self._before_evaluation(number)
        if self._half_logs is not None:
            self._half_logs.tell(outcomes.sparkSession.sparkContext, entry)
        self._checkpoint.synchronise()  # Kafka never has a batch that a power loss takes from the checkpoint
        now = time.monotonic()
        every_partition = self._all_wrote_at is None or now - self._all_wrote_at >= _DAY_SECONDS
        batch = Batch(
            self._checkpoint.query_id(),
            number,
            entry.content_hash,
            every_partition,
            self._floor,
            entry.time_ms,
            dated_ms,
            self._preconditions.run,
        )
        plan = self._publisher.plan(batch) if self._publisher else None
        reports = self._write.of(outcomes, number, (batch, plan)).collect()  # 1
        self._refuse_missing_reports(number, [report.partition for report in reports])
        published: Counter[str] = Counter()
        if self._publisher and plan:
            staged = [StagedFile(*one) for report in reports for one in json.loads(report.staged)]
            published = self._publisher.publish(batch, plan, staged)  # 2
        if every_partition:
            self._all_wrote(number, now)
        seconds = max(0.0, time.time() - entry.time_ms / 1000)
        report = replace(_summed(number, reports, published), seconds=seconds)
        if self._observer:
            self._observer(report)
        if self._idle:
            self._idle.after(report, entry)
        self._preconditions.after()
        self._settings.failpoint(Failpoint.BATCH_ENDS, number)

    def _refuse_missing_reports(self, batch: int, partitions: list[int]) -> None:
        # PySpark takes the end of the socket that results come by for the end of the results
        if sorted(partitions) != list(range(self._state_partitions)):
            raise InputCutShortError(
                f"Batch {batch}: of {self._state_partitions} state partitions, reports came from {sorted(partitions)}. "
                "The batch is run again; what Kafka has of it is skipped."
            )

    def _all_wrote(self, number: int, now: float) -> None:
        self._all_wrote_at = now
        self._floor = number + 1
        self._checkpoint.remember_floor(self._floor)
        self._preconditions.renew()


def _summed(number: int, reports: list[Row], published: Counter[str]) -> BatchReport:
    written = sum(report.written for report in reports)
    counts = sum((Counter(json.loads(report.counts)) for report in reports), Counter[str]())
    usages = [{group: Usage(*changed) for group, changed in json.loads(report.usages).items()} for report in reports]
    reasons, examples = reasons_of(report.reasons for report in reports)
    return BatchReport(
        number,
        written,
        sum(report.skipped for report in reports),
        counts,
        published,
        summed(usages),
        reasons,
        summed_counts(Tally, (report.tallies for report in reports)),
        open_by_segment(report.still_open for report in reports),
        examples=examples,
        held=summed_counts(HeldUntil, (report.held for report in reports)),
        refused=summed_counts(Refused, (report.refused for report in reports)),
    )


def _writer(settings: SinkSettings) -> BatchFunction:
    def write(told: tuple[Batch, StagingPlan | None], outcomes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, plan = told
        prepare_worker()
        name_worker("sink")
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        staging = Staging(plan, partition, contents_of(settings)) if plan else None
        rows = whole(outcomes)
        report = write_partition(settings, batch, partition, staging.take(rows) if staging else rows)
        if staging and staging.counts:
            report.counts = json.dumps(Counter(json.loads(report.counts)) + staging.counts)
            if report.skipped and staging.counts["gone"]:
                _LOGGER.error(
                    "Batch %d is in Kafka already, and the content of %d messages of state partition %d that tables "
                    "may not have yet is gone from the half topic since. Kafka has them, where rules send them there.",
                    *(batch.number, staging.counts["gone"], partition),
                )
        report.staged = json.dumps(staging.files if staging else [])
        yield pa.RecordBatch.from_pylist([asdict(report)])
        name_worker("idle")

    return write
