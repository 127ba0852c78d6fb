"""What keeps one producer group from taking the room of all: quotas, how much a batch may read, and how much of the
state goes to Python at once.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import add
from threading import Event
from typing import Any, NamedTuple

import pandas as pd
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from access.policy import AccessPolicy
from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.send_limits import Notice, store_notices
from conf import KafkaSettings, Settings
from state import Usage, Usages, segment_from_bytes, summed
from streaming.batch.batch import BatchReport, OpenBySegment, open_by_segment, open_to_json
from streaming.batch.kept_by_batch import KeptByBatch
from streaming.fairness.barred import BARRED, NOBODY, tell_tasks
from streaming.fairness.batch_size import BatchSize, ReadLimit
from streaming.fairness.quotas import Quotas, RunningTotal
from streaming.fairness.state_size import MANY, ROWS, ArrowRows
from streaming.folders import folder_at, path_of_state

_LOGGER = logging.getLogger(__name__)
_COUNT_AFTER_SECONDS = 120.0
"""After the first batch: counting takes the cores for seconds, and whoever waits for a restarted job waits for
deliveries first."""
_COUNT_AGAIN_SECONDS = 60.0
_LOOK_SECONDS = 2.0
_VALID_MS, _RENEWED_BEFORE_MS = 300_000, 240_000
_MOST_GROUPS = 1_000
_COLUMNS = ("open", "open_bytes", "delayed", "parked")
_SCHEMA = (
    "group string, open long, open_bytes long, delayed long, parked long, state_bytes long, still_open string, "
    "timeouts_ms array<long>"
)
_NOBODY = ""


class KnownUsage(NamedTuple):
    """What is known of groups and of the state."""

    usages: Usages | None
    """None: not known yet."""
    state_bytes: int | None
    """None: not known yet."""
    barred: Mapping[str, str]
    """Groups whose new half messages are rejected, with the reason: as far as they are known, of a barred account."""
    batch_limit: int | None = None
    """Records that the next batch may read; None: not known yet."""


class Fairness:
    """Called around each batch; one for each run of the job.

    1. :meth:`before` tells the tasks whose half messages they do not take in.
    2. :meth:`after` learns what the batch has read and changed, and says how much the next one may read.
    3. Two minutes after the start the state is counted, once, in a thread of its own: quotas know from then on, and
       ``on_count`` what is undecided and when timers are due.
       ``essence`` shortens the text of an error that keeps it from being counted.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        essence: Callable[[str], str],
        on_count: Callable[["StateCount"], None] = lambda _count: None,
    ) -> None:
        self._spark = spark
        self._checkpoint, self._kafka = settings.job.checkpoint, settings.kafka
        self._essence = essence
        self._on_count = on_count
        self._size = BatchSize(settings.job.max_offsets_per_trigger, settings.job.max_bytes_per_trigger)
        self._retry_prefix = settings.kafka.topics.retry("")
        self._quotas = Quotas(settings.quotas, self._retry_prefix)
        folder = folder_at(spark, self._checkpoint)
        self._barred = KeptByBatch(folder, BARRED)
        self._told = NOBODY
        self._limit: ReadLimit | None = None
        self._state_bytes: RunningTotal[int] = RunningTotal(add)
        many = int(settings.job.spark_options.get(ROWS, MANY))
        self._arrow = ArrowRows(spark, folder, settings.job.driver_memory_bytes, many)
        self._lock = threading.Lock()
        self._newest = -1
        self._timer: threading.Timer | None = None
        self._stopped = threading.Event()

    def watch(self, query: StreamingQuery, now_ms: Callable[[], int]) -> None:
        """The query whose batches these are, once it has been started; ``now_ms`` gives Kafka's time."""
        arguments = (self._kafka, lambda: self.standing().barred, now_ms, self._stopped)
        threading.Thread(target=keep_notices, args=arguments, name="limit-notices", daemon=True).start()
        self._limit = ReadLimit(query)
        self._arrow.watch(query)

    def before(self, batch: int, policy: AccessPolicy | None = None) -> None:
        """Before the batch is evaluated, in the thread that runs it. ``policy`` is the one that it is evaluated under.

        Raises:
            OSError, Py4JError: the checkpoint folder is away.
        """
        with self._lock:
            barred = self._told = self._barred.of_batch(batch, partial(self._quotas.barred, policy=policy))
        tell_tasks(self._spark.sparkContext, barred)

    def after(self, report: BatchReport) -> None:
        """When it has been written.

        Raises:
            JobStoppedError: this Spark cannot be told.
            OSError, Py4JError: the checkpoint folder is away.
        """
        with self._lock:
            self._quotas.changed(report.batch, report.usages)
            self._newest = report.batch
            if report.batch == 0:
                self._state_bytes.begin_with(-1, 0)
                self._quotas.begin_with(-1, {})
            self._state_bytes.changed(report.batch, report.counts["state_bytes"] - report.counts["state_bytes_before"])
            self._arrow.after(self._state_bytes.now)
        records = self._size.after(report.counts["read"], report.counts["read_bytes"])
        if self._limit is not None:
            self._limit.set(records)
        if self._timer is None:
            self._count_in(_COUNT_AFTER_SECONDS)

    def standing(self) -> KnownUsage:
        """What is known now."""
        with self._lock:
            barred = self._quotas.barred_groups(self._told)
            return KnownUsage(self._quotas.now, self._state_bytes.now, barred, self._size.records)

    def stop(self) -> None:
        """Count no more. Harmless when nothing is to be counted."""
        with self._lock:
            self._stopped.set()
            if self._timer is not None:
                self._timer.cancel()

    def _count_in(self, seconds: float) -> None:
        with self._lock:
            if not self._stopped.is_set():
                self._timer = threading.Timer(seconds, self._count)
                self._timer.daemon = True
                self._timer.start()

    def _count(self) -> None:
        batch = self._newest - 1  # Spark's commit log has it for certain
        if batch < 0:
            self._count_in(_COUNT_AFTER_SECONDS)
            return
        try:
            counted = usage_in_state(self._spark, self._checkpoint, batch, self._retry_prefix)
        except (PySparkException, Py4JError, OSError) as error:
            if not self._stopped.is_set():
                _LOGGER.warning(
                    "Quotas wait: the state of batch %d cannot be counted now: %s", batch, self._essence(f"{error}")
                )
            self._count_in(_COUNT_AGAIN_SECONDS)
            return
        except AttributeError:  # of PySpark's, whose context has ended while it read
            if self._stopped.is_set():
                return
            raise
        with self._lock:
            self._quotas.begin_with(batch, counted.usages)
            self._state_bytes.begin_with(batch, counted.state_bytes)
        self._on_count(counted)


def keep_notices(
    kafka: KafkaSettings, barred: Callable[[], Mapping[str, str]], now_ms: Callable[[], int], ended: Event
) -> None:
    """Store notices until ``ended``. ``barred`` gives the reasons by group, ``now_ms`` Kafka's time."""
    stored: dict[str, Notice] = {}
    while not ended.wait(_LOOK_SECONDS):
        try:
            if due := due_notices(stored, barred(), now_ms()):
                store_notices(kafka.bootstrap_servers, kafka.python_client, kafka.topics.progress, due)
                stored = {group: notice for group, notice in {**stored, **due}.items() if notice[0]}
        except (KafkaError, CheckbackError) as error:  # tried again
            _LOGGER.debug("Kafka does not store which groups are over a limit", exc_info=error)


def due_notices(stored: Mapping[str, Notice], barred: Mapping[str, str], now_ms: int) -> dict[str, Notice]:
    """Return the notices to store now, given those that are stored and the groups that are barred."""
    sharing = Counter(barred.values())
    # an account may make up names of groups: those of others come first
    first = sorted(barred, key=lambda group: (sharing[barred[group]], group))[:_MOST_GROUPS]
    old = [group for group in first if stored.get(group, (0,))[0] < now_ms + _RENEWED_BEFORE_MS]
    ended: dict[str, Notice] = dict.fromkeys(stored.keys() - barred.keys(), (0, ""))
    return ended | {group: (now_ms + _VALID_MS, barred[group]) for group in old}


class StateCount(NamedTuple):
    """All state at a moment."""

    usages: Usages
    state_bytes: int
    """As it is stored."""
    still_open: OpenBySegment
    timeouts_ms: frozenset[int]
    """Of segments: a timer fires when the watermark is behind it."""


def usage_in_state(spark: SparkSession, checkpoint: str, batch: int, retry_prefix: str) -> StateCount:
    """Read the whole state as it was when this batch had ended; a running query is not disturbed.

    Raises:
        PySparkException, Py4JError: Spark has forgotten that state by now, or its folder is away.
    """
    stored = spark.read.format("statestore").option("batchId", batch).load(path_of_state(spark, checkpoint))
    contents = stored.selectExpr("key.half_partition", "value.groupState.content", "value.timeoutTimestamp")
    found = contents.mapInPandas(partial(_counted, retry_prefix), _SCHEMA).collect()
    groups = [{row["group"]: Usage(*(row[name] for name in _COLUMNS))} for row in found if row["group"] != _NOBODY]
    still_open = open_by_segment(row["still_open"] for row in found if row["group"] == _NOBODY)
    timeouts_ms = frozenset(timeout_ms for row in found for timeout_ms in row["timeouts_ms"])
    return StateCount(summed(groups), sum(row["state_bytes"] for row in found), still_open, timeouts_ms)


def _counted(retry_prefix: str, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        segments = [segment_from_bytes(bytes(content)) for content in frame["content"]]
        usages = summed([segment.usage(retry_prefix) for segment in segments])
        places = zip(frame["half_partition"].tolist(), segments, strict=True)
        still_open = {(partition, one.first_offset): one.open_by_topic() for partition, one in places}
        size = sum(len(content) for content in frame["content"])
        rows: list[tuple[Any, ...]] = [(group, *usage, 0, "", []) for group, usage in usages.items()]
        undecided = open_to_json({place: of for place, of in still_open.items() if of})
        rows.append((_NOBODY, 0, 0, 0, 0, size, undecided, frame["timeoutTimestamp"].unique().tolist()))
        yield pd.DataFrame(rows, columns=["group", *_COLUMNS, "state_bytes", "still_open", "timeouts_ms"])
