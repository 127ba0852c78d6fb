"""The whole job: Spark, the query, and the check service beside it."""

import contextlib
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import CheckbackError, DestinationError, JobFailedError, JobStoppedError
from checkback.protocol import Topics
from checkback.topics import TopicAdministration
from checkers import CheckService
from conf import Settings
from streaming.checkpoint import Checkpoint, CheckpointFacts
from streaming.metrics import JobMetrics
from streaming.partition_writer import SinkSettings
from streaming.query import outcomes, policy_of, start_query
from streaming.session import build_session
from streaming.sink import BatchReport, ExactlyOnceSink
from streaming.sinks import publisher_of
from streaming.steps import Witness, nothing

_LOGGER = logging.getLogger(__name__)
_OURS = "checkback.exceptions."
_STOP_SECONDS = 20


class TransactionJob:
    """Runs until stopped; use it as a context manager.

    Raises on entry:
        ConfigurationError, CheckpointMismatchError: settings, topics and checkpoint do not fit together. Nothing
            has been read or written then.
    """

    def __init__(
        self,
        settings: Settings,
        observer: Callable[[BatchReport], None] | None = None,
        spark: SparkSession | None = None,
        witness: Witness = nothing,
    ) -> None:
        self._settings = settings
        self._witness = witness
        self._observer = observer
        self._given_spark = spark
        self._spark: SparkSession | None = None
        self._sink: ExactlyOnceSink | None = None
        self._metrics = JobMetrics(settings.job.metrics_port)
        self._query: StreamingQuery | None = None
        self._checks: CheckService | None = None

    def start(self) -> Self:
        """Check everything, then start the query and, if the settings say so, the check service."""
        settings = self._settings
        policy_of(settings)  # raises on a class of the user's that cannot be used
        topics = Topics(settings.kafka.topic_prefix)
        kafka = settings.kafka
        with TopicAdministration(kafka.bootstrap_servers, kafka.client_options) as administration:
            half_partitions = administration.check(topics, settings.job.state_partitions)
        spark = self._spark = self._given_spark or build_session(settings)
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        facts = CheckpointFacts(
            settings.transactions.segment_size,
            settings.job.state_partitions,
            half_partitions,
            kafka.topic_prefix,
        )
        checkpoint.check(facts, int(time.time() * 1000), settings.job.clock_tolerance)
        publisher = publisher_of(settings, spark, self._witness)
        self._sink = ExactlyOnceSink(
            SinkSettings(
                kafka.bootstrap_servers,
                topics,
                settings.job.sink_transaction_timeout,
                dict(kafka.sink_options),
                self._witness,
            ),
            checkpoint,
            self._observe,
            publisher,
        )
        # py4j logs what a callback raises with its whole stack; the job says it in one sentence
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        self._metrics.start()
        self._query = start_query(outcomes(spark, settings), settings, self._sink)
        if settings.checks.in_job:
            self._checks = CheckService(settings)
            self._checks.start()
        return self

    def wait(self, seconds: float) -> bool:
        """Wait, up to so long, for the job to end by itself; False when it still runs.

        Raises:
            JobStoppedError: it stopped because going on would have done harm.
            JobFailedError: something failed that may be well again later.
        """
        if self._query is None:
            return True
        if self._checks is not None:
            self._checks.raise_if_dead()
        try:
            ended = bool(self._query.awaitTermination(max(1, int(seconds))))
        except StreamingQueryException as error:
            raise _explained(error) from error
        for progress in self._query.recentProgress:
            self._refuse_dropped_rows(progress)
        return ended

    def stop(self) -> None:
        """Finish the batch in hand, then stop. Harmless when the job does not run."""
        checks, self._checks = self._checks, None
        query, self._query = self._query, None
        spark, self._spark = self._spark, None
        if checks is not None:
            checks.stop()
        if query is not None and self._sink is not None:
            self._sink.stop_before_next_batch()
            with contextlib.suppress(StreamingQueryException):
                query.awaitTermination(_STOP_SECONDS)
            query.stop()
        if spark is not None and self._given_spark is None:
            spark.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _observe(self, report: BatchReport) -> None:
        self._metrics.observe(report)
        if self._observer:
            self._observer(report)

    def _refuse_dropped_rows(self, progress: Any) -> None:
        dropped = sum(o["numRowsDroppedByWatermark"] for o in (progress or {}).get("stateOperators", []))
        if dropped:
            self.stop()
            raise JobStoppedError(
                f"Spark dropped {dropped} rows as late: the clock stepped back by more than job.clock_tolerance. Set "
                "the clock. Kafka still has the rows; a new checkpoint folder reads them, and delivers everything "
                "that Kafka still has once more: consumers must drop what they know by its cb-id."
            )


def _explained(error: StreamingQueryException) -> CheckbackError:
    """Our own exception's message where one of ours stopped the query, else Spark's first line."""
    lines = str(error).splitlines()
    for line in lines:
        if _OURS in line:
            name, _, message = line.partition(_OURS)[2].partition(": ")
            return DestinationError(message) if name == DestinationError.__name__ else JobStoppedError(message)
    return JobFailedError(f"The query failed; started again, it goes on where it was. {lines[0] if lines else error!r}")
