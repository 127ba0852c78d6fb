"""The thin adapter between ``applyInPandasWithState`` and the pure functions of ``state``."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from checkback.exceptions import JobStoppedError
from checkback.wire.protocol import Topics
from state import (
    BYTES,
    OUTCOME_FIELDS,
    Allowance,
    Arrivals,
    Collector,
    Policies,
    Rows,
    RunLimits,
    Segment,
    evaluate,
    segment_from_bytes,
    segment_to_bytes,
)
from streaming.access.told import told_policy, told_verifier
from streaming.batch.failpoints import Failpoint, FailpointHook, no_failpoint
from streaming.checkpoint.half_logs import Openings
from streaming.fairness.barred import told
from streaming.python_worker.preparation import name_worker, prepare_worker
from streaming.stateful.admission import Admission
from streaming.stateful.arrivals import arrivals_of
from streaming.stateful.decode import INGEST_TIME, NO_SEGMENT

_SPARK_TYPES: dict[Any, DataType] = {np.int8: ByteType(), np.int32: IntegerType(), np.int64: LongType()}

STATE_SCHEMA = StructType([StructField("content", BinaryType())])

OUTCOME_SCHEMA = StructType(
    [StructField("half_partition", IntegerType())]
    + [
        StructField(
            name,
            (BinaryType() if name in BYTES else StringType()) if kind is object else _SPARK_TYPES[kind],
        )
        for name, kind in OUTCOME_FIELDS.items()
    ]
)

_OUTCOME_ARROW: pa.Schema = to_arrow_schema(OUTCOME_SCHEMA, timezone="UTC")

SegmentFunction = Callable[[Any, Iterator[pa.RecordBatch], GroupState], Iterator[pa.RecordBatch]]
"""As :mod:`streaming.python_worker.arrow_state` has it: Arrow record batches, where PySpark has pandas frames."""

BatchTime = Callable[[GroupState], int]
"""The batch's own time, the same for all its rows and timers and whenever it is run again."""

_BATCH_NUMBER = "streaming.sql.batchId"  # Spark's MicroBatchExecution.BATCH_ID_KEY


def with_segment_state(
    decoded: DataFrame,
    policies: Policies,
    topics: Topics,
    clock_tolerance_ms: int,
    batch_time: BatchTime = GroupState.getCurrentProcessingTimeMs,
    failpoint: FailpointHook = no_failpoint,
    limits: RunLimits | None = None,
) -> DataFrame:
    """Outcomes of a decoded stream that has an ``ingest_time`` column.

    The watermark lies ``clock_tolerance_ms`` behind the ingest time, so that a clock that steps back makes no
    row late; timers are set earlier by as much, so that they are on time all the same. A timer that fires too early,
    because the tolerance was another one when it was set, finds nothing due and is set again.
    """
    return (
        decoded.withWatermark(INGEST_TIME, f"{clock_tolerance_ms} milliseconds")
        .groupBy("half_partition", "segment")
        .applyInPandasWithState(
            segment_function(policies, topics, clock_tolerance_ms, batch_time, failpoint, limits),
            outputStructType=OUTCOME_SCHEMA,
            stateStructType=STATE_SCHEMA,
            outputMode="append",
            timeoutConf=GroupStateTimeout.EventTimeTimeout,
        )
    )


def segment_function(
    policies: Policies,
    topics: Topics,
    clock_tolerance_ms: int,
    batch_time: BatchTime,
    failpoint: FailpointHook = no_failpoint,
    limits: RunLimits | None = None,
) -> SegmentFunction:
    """The function that Spark calls for each segment that has rows, or whose timer is due."""
    spending = _Spending(limits)
    openings = Openings()

    def step(key: Any, chunks: Iterator[pa.RecordBatch], group_state: GroupState) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        name_worker("state")
        half_partition, number = int(key[0]), int(key[1])
        pieces = [chunk for chunk in chunks if chunk.num_rows]
        batch = _batch_number()
        policy, now_ms = policies.of_batch(batch), batch_time(group_state)
        signed = told_verifier()
        admission = Admission(now_ms, policy.delay_max_ms, told(), told_policy(topics), signed, policy.retry_prefix)
        arrivals = arrivals_of(pieces, topics, admission)
        if number == NO_SEGMENT:
            result = evaluate(Segment.new(0, policy), Arrivals(broken=arrivals.broken), now_ms, policy)
            yield from _batches([result.outcomes, _counted(_read(arrivals))], half_partition)
            return
        stored = group_state.get[0] if group_state.exists else b""
        segment = segment_from_bytes(stored) if stored else Segment.new(number, policy)
        reach = openings.reach(batch, half_partition)
        allowance = spending.of_run(batch, timed_out=group_state.hasTimedOut)
        opens = segment.unopened
        result = evaluate(segment, arrivals, now_ms, policy, allowance, reach)
        failpoint(Failpoint.IN_STATE, batch)
        if opens and result.segment is not None and result.segment.early_only:
            openings.opened()
        kept, due_ms = stored, None
        if result.segment is None:
            kept = b""
            if group_state.exists:
                group_state.remove()
        else:
            if arrivals.count or result.outcomes.count:  # else it is what it was: none of its timers was allowed
                kept = segment_to_bytes(result.segment)
                group_state.update((kept,))
            if result.timer_ms is not None:
                # Spark lets those fire that lie before the watermark, and refuses one that is not after it.
                timeout_ms = max(result.timer_ms - clock_tolerance_ms - 1, group_state.getCurrentWatermarkMs() + 1)
                group_state.setTimeoutTimestamp(timeout_ms)
                due_ms = timeout_ms + clock_tolerance_ms + 1
        sizes = {"state_bytes": len(kept), "state_bytes_before": len(stored)}
        yield from _batches([result.outcomes, _counted({**_read(arrivals), **sizes}, due_ms)], half_partition)

    return step


class _Spending:
    """The allowance of the run of Python that is under way: see ``state.allowance`` for what depends on it."""

    def __init__(self, limits: RunLimits | None) -> None:
        self._limits = limits
        self._run: tuple[int, int, bool] | None = None
        self._allowance = Allowance(limits)

    def of_run(self, batch: int, *, timed_out: bool) -> Allowance:
        """That of this batch, this attempt at one state partition, and either of its two runs."""
        context = TaskContext.get()
        run = (batch, context.taskAttemptId() if context else 0, timed_out)
        if run != self._run:
            self._run, self._allowance = run, Allowance(self._limits)
        return self._allowance


def _batch_number() -> int:
    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH_NUMBER) if context else None
    if number is None:
        raise JobStoppedError("Spark does not say which batch a task is of: another version than 4.2, perhaps.")
    return int(number)


def _read(arrivals: Arrivals) -> dict[str, int]:
    """What the batch has read, which decides how much the next one may read."""
    return {"read": arrivals.count, "read_bytes": arrivals.content_bytes()}


def _counted(numbers: dict[str, int], due_ms: int | None = None) -> Rows:
    collector = Collector()
    collector.count(numbers)
    if due_ms is not None:
        collector.timer(due_ms)
    return collector.rows()


def _batches(parts: list[Rows], half_partition: int) -> Iterator[pa.RecordBatch]:
    outcomes = Rows.concat(parts)  # each batch has a price, however few its rows
    if outcomes.count:
        columns = {"half_partition": np.full(outcomes.count, half_partition, np.int32), **outcomes}
        arrays = [pa.array(columns[field.name], field.type) for field in _OUTCOME_ARROW]
        yield pa.RecordBatch.from_arrays(arrays, schema=_OUTCOME_ARROW)
