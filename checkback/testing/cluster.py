"""A Kafka with Checkback's topics, and the job, on this machine."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from checkback.exceptions import CheckbackError
from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.testing.job_process import JobProcess
from checkback.wire.protocol import Topics

_DAY_MS = 24 * 3_600_000
_START_SECONDS = 180.0
_STATE_PARTITIONS = 2


@dataclass(frozen=True)
class _Times:
    """The defaults of the job's settings."""

    age_limit: int = 3 * _DAY_MS
    half_retention_ms: int = 12 * _DAY_MS


class LocalCluster:
    """A real Kafka with Checkback's topics, as long as the ``with`` block lasts. Needs the extra ``local``, and a Java.

    ``topics`` are real topics to make, with ``partitions`` each; the half and the op topic have as many.
    ``heap_megabytes``: of Kafka's Java, in MiB.
    """

    def __init__(self, topics: Sequence[str] = (), *, partitions: int = 2, heap_megabytes: int = 512) -> None:
        self._real_topics = topics
        self._partitions = partitions
        self._open = ExitStack()
        self._kafka = LocalKafka(heap_megabytes=heap_megabytes)
        self.folder = Path()
        """A temporary one, for the checkpoint and for logs; it goes with the cluster."""

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka answers."""
        return self._kafka.bootstrap_servers

    @property
    def kafka_pid(self) -> int | None:
        """Process id of what runs Kafka, whose child it is; None when it does not run."""
        return self._kafka.pid

    def create_topic(self, name: str) -> None:
        """Make a real topic; nothing when it is there."""
        with TopicAdministration(self.bootstrap_servers) as administration:
            administration.create_one(name, self._partitions)

    @contextmanager
    def running_job(self, settings: Mapping[str, str] | None = None) -> Iterator[JobProcess]:
        """``checkback run``, with the check service in it; ready when the block is entered. Needs ``checkback-job``.

        ``settings`` by ``SECTION__KEY``, as in the environment: ``{"TRANSACTIONS__TIMEOUT": "2s"}``. Whatever is not
        named there is the default, but for the place of the checkpoint, two state partitions, and 1 GiB of memory. A
        second job in the same cluster continues where the first one stopped.

        Raises:
            CheckbackError: the job ended, or was not ready within three minutes.
        """
        small = {
            "KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "JOB__CHECKPOINT": str(self.folder / "checkpoint"),
            "JOB__STATE_PARTITIONS": str(_STATE_PARTITIONS),
            "JOB__MASTER": "local[2]",
            "JOB__DRIVER_MEMORY": "1g",
            "HTTP__PORT": "0",  # several may run at once
        }
        with JobProcess(self.folder / f"job-{time.monotonic_ns()}.log", {**small, **(settings or {})}) as job:
            job.wait_until(lambda: "Running;" in job.said(), _START_SECONDS, "started")
            yield job

    def read(self, topic: str) -> list[Any]:
        """What ``read_committed`` consumers of a topic can see now, partition by partition: kafka-python's records."""
        with closing(reading_consumer(self.bootstrap_servers)) as consumer:
            return list(records_to_end(consumer, topic))

    def wait_for(self, topic: str, count: int, seconds: float = 60.0) -> list[Any]:
        """Wait until a topic has that many records; gives them.

        Raises:
            CheckbackError: it has fewer after ``seconds``.
        """
        until = time.monotonic() + seconds
        while len(found := self.read(topic)) < count:
            if time.monotonic() > until:
                raise CheckbackError(f"After {seconds:.0f} s {topic} has {len(found)} records, not {count}.")
            time.sleep(0.1)
        return found

    def __enter__(self) -> Self:
        self.folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="checkback-cluster-")))
        try:
            self._open.enter_context(self._kafka)
            self._create_topics()
        except BaseException:
            self._open.close()
            raise
        return self

    def _create_topics(self) -> None:
        with TopicAdministration(self.bootstrap_servers) as administration:
            administration.create(
                Topics(),
                partitions=self._partitions,
                progress_partitions=_STATE_PARTITIONS,
                replication=1,
                times=_Times(),
            )
            for name in self._real_topics:
                administration.create_one(name, self._partitions)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()
