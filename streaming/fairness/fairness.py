"""What keeps one producer group from taking the room of all: quotas, how much a batch may read, and how much of the
state goes to Python at once.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import add
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from access.policy import AccessPolicy
from conf import Settings
from state import Usages
from streaming.batch.batch import BatchReport, OpenBySegment
from streaming.batch.kept_by_batch import KeptByBatch
from streaming.fairness.barred import BARRED, NOBODY, tell_tasks
from streaming.fairness.batch_size import BatchSize, ReadLimit
from streaming.fairness.limit_notices import keep_notices
from streaming.fairness.quotas import Quotas
from streaming.fairness.running_total import RunningTotal
from streaming.fairness.state_size import MANY, ROWS, ArrowRows
from streaming.fairness.usage_in_state import usage_in_state
from streaming.folders import folder_at

_LOGGER = logging.getLogger(__name__)
_COUNT_AFTER_SECONDS = 120.0
"""After the first batch: counting takes the cores for seconds, and whoever waits for a restarted job waits for
deliveries first."""
_COUNT_AGAIN_SECONDS = 60.0


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
       ``on_count`` what is undecided. ``essence`` shortens the text of an error that keeps it from being counted.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        essence: Callable[[str], str],
        on_count: Callable[[OpenBySegment], None] = lambda _still_open: None,
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
        self._on_count(counted.still_open)
