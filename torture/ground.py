"""The ground of a fault run: a broker with topics, a folder, and the settings and environment of its processes."""

import contextlib
import functools
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from checkback.exceptions import ConfigurationError, InstallationError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration, confirmed_by
from checkback.wire.protocol import Topics
from conf import TransactionSettings
from torture import tables
from torture.clock import SettableClock
from torture.disk import Disk
from torture.tables import Tables
from torture.waiting import GIVE_UP_SECONDS

if TYPE_CHECKING:
    from torture.postgresql import Postgresql

HALF_PARTITIONS = 4
STATE_PARTITIONS = 2
REAL_PARTITIONS = 3
REAL_TOPICS = ("orders", "invoices")
MORE_TOPICS = "more-topics.json"


@dataclass(frozen=True)
class Ground:
    """Where everything lies; the job's executors are processes of their own."""

    folder: Path
    broker: LocalKafka
    clock: SettableClock
    tables: Tables | None = None
    disk: Disk | None = None
    """Of the job's machine: its checkpoint and its scratch folder lie there. None: where everything lies."""
    executors: int = 1
    """How many share two cores; with 0 the driver runs the tasks itself, and one that fails is not tried again."""
    topics: Topics = field(default_factory=Topics)

    @property
    def servers(self) -> str:
        """Where Kafka answers."""
        return self.broker.bootstrap_servers

    @property
    def replication(self) -> int:
        """Of every topic."""
        return 1

    @property
    def sent_topics(self) -> tuple[str, ...]:
        """What producers send to; one that only tables have is in no Kafka."""
        return tuple(dict.fromkeys([*REAL_TOPICS, *(tables.TOPICS if self.tables else ())]))

    @property
    def postgresql(self) -> "Postgresql | None":
        """The database, when there is one."""
        return self.tables.postgresql if self.tables else None

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint folder."""
        return self.of_job / "checkpoint"

    def checkpoint_here(self) -> Path:
        """Where its offset log can be read."""
        return self.checkpoint

    @property
    def of_shop(self) -> Path:
        """Where the producers' database lies."""
        return self.folder

    @property
    def synchronous(self) -> str:
        """Whether that database waits for its disk; see :class:`torture.sent.Database`."""
        return "OFF"

    @property
    def of_sending(self) -> dict[str, str]:
        """Variables of the producers: see :data:`torture.shop.RATE`."""
        return {}

    @property
    def may_forget(self) -> bool:
        """Whether brokers may lose what was delivered, so that all of it is read once more in the end."""
        return False

    @property
    def of_job(self) -> Path:
        """Where the job's files lie."""
        return self.disk.folder if self.disk else self.folder

    def prepare(self) -> None:
        """Start the broker, create the topics, and the schema in PostgreSQL when there is one.

        Raises:
            ConfigurationError: the database cannot be used; nothing is left then.
        """
        if self.postgresql:
            try:
                self.postgresql.prepare()
            except ConfigurationError:
                shutil.rmtree(self.folder)
                raise
        if self.disk:
            self.disk.make()
        self.start_servers()
        self.create_topics()
        with TopicAdministration(self.servers) as administration:
            for topic in REAL_TOPICS:
                administration.create_one(topic, REAL_PARTITIONS, self.replication, confirmed_by(self.replication))

    def start_servers(self) -> None:
        """Kafka, and whatever else the job needs."""
        self.broker.start()

    def create_topics(self) -> None:
        """Create Checkback's topics, those that are missing."""
        with TopicAdministration(self.servers) as administration:
            administration.create(
                self.topics,
                partitions=HALF_PARTITIONS,
                progress_partitions=STATE_PARTITIONS,
                replication=self.replication,
                times=TransactionSettings(),
            )

    def close(self) -> None:
        """Stop the broker, and unmount the disk."""
        self.broker.stop()
        if self.disk:
            self.disk.close()

    def tell_shop(self, *more: tuple[str, int | None]) -> None:
        """Where producers send some of their messages from now on, beside the usual topics: topic and partition."""
        draft = self.folder / f"{MORE_TOPICS}.draft"
        draft.write_text(json.dumps(more), encoding="utf-8")
        draft.rename(self.folder / MORE_TOPICS)

    def clear(self, *, keep_logs: bool) -> None:
        """Remove what is in the database, and the folder."""
        if self.postgresql:
            self.postgresql.remove()
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def settings(self) -> dict[str, str]:
        """Environment of the job and of the check service."""
        cluster = f"local-cluster[{self.executors},{2 // self.executors},1024]" if self.executors else "local[2]"
        values = {
            "KAFKA__BOOTSTRAP_SERVERS": self.servers,
            "JOB__CHECKPOINT": str(self.checkpoint),
            "JOB__MASTER": cluster,
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
            "JOB__MAX_OFFSETS_PER_TRIGGER": "2000",
            "TRANSACTIONS__TIMEOUT": "2s",
            "TRANSACTIONS__CHECK_INTERVAL": "1s",
            "TRANSACTIONS__CHECK_INTERVAL_MAX": "1s",
            "TRANSACTIONS__CHECK_MAX": "1000",  # what is down for long here must not be given up on
            "TRANSACTIONS__CHECK_ANSWER_TTL": "5s",
            "TRANSACTIONS__UNREACHABLE_BACKOFF_MAX": "2s",
            "TRANSACTIONS__TIMER_SLACK": "100ms",
            "CHECKS__IN_JOB": "false",
            "HTTP__PORT": "0",  # 9464 is for a job of somebody's
            "CHECKS__ENDPOINT_TTL": "20s",
        }
        return {f"CHECKBACK_{name}": value for name, value in values.items()}

    @functools.cached_property
    def job_environment(self) -> dict[str, str]:
        """The settings, the clock that can be set, and a folder for what executors log."""
        settings = {**self.settings(), **(self.tables.environment() if self.tables else {})}
        if self.tables is None:  # there an archive has more classes, and costs more than a short run gets back
            from streaming.class_archive import make_archive  # noqa: PLC0415  (it brings Spark, which no shop needs)

            with contextlib.suppress(InstallationError):  # a driver starts every half minute
                make_archive()
        return {
            **settings,
            **self.clock.environment(),
            # Java that lives for a minute: to be compiled quickly rather than well
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
            "SPARK_WORKER_DIR": str(self.folder / "executors"),
            "SPARK_LOCAL_DIRS": str(self.of_job / "spark"),
        }


def make_ground(
    executors: int = 1, *, with_tables: bool = False, postgresql_url: str = "", with_disk: bool = False
) -> Ground:
    """A fresh place, in a temporary folder; with a database there are the other tables, too."""
    database = database_at(postgresql_url) if postgresql_url else None
    place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
    beside = Tables(place / "tables", database) if with_tables or database else None
    broker = LocalKafka(place / "kafka", start_seconds=GIVE_UP_SECONDS)
    return Ground(place, broker, SettableClock(place), beside, Disk(place) if with_disk else None, executors)


def database_at(url: str) -> "Postgresql":
    """The database of a run.

    Raises:
        InstallationError: its driver is not installed.
    """
    try:
        from torture.postgresql import Postgresql  # noqa: PLC0415  (psycopg is needed for this only)
    except ModuleNotFoundError as error:
        raise InstallationError(
            f"PostgreSQL in a fault run needs {error.name}: pip install 'psycopg[binary]'."
        ) from error
    return Postgresql(url)
