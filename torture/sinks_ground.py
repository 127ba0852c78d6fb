"""The ground of a fault run for tables: one broker, the job's disk, a PostgreSQL, an S3 server, and proxies to both."""

import json
import shutil
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from checkback.exceptions import InstallationError
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from streaming.class_archive import make_archive
from torture import shop
from torture.answers import HOST, TO_COMMIT, TO_LOG_ENTRY, LosingProxy
from torture.clock import SettableClock
from torture.disk import Disk
from torture.ground import Ground
from torture.local_postgresql import LocalPostgresql
from torture.local_s3 import LocalS3, options_of
from torture.postgresql import Postgresql
from torture.tables import BUCKET, LAKE, Tables
from torture.waiting import GIVE_UP_SECONDS

ROLE = "torture"
"""Of the job in PostgreSQL; its password, too."""
_PER_SECOND = 25
"""The stores hold all rows of a run, and the run reads all of them every few rounds."""
_DISK_BYTES = 8 << 30


@dataclass(frozen=True, kw_only=True)
class SinksGround(Ground):
    """The job's disk holds its checkpoint and two of the four tables. The driver runs all tasks."""

    server: LocalPostgresql
    s3: LocalS3
    commits: LosingProxy
    """Between the job and PostgreSQL."""
    puts: LosingProxy
    """Between the job and S3."""
    started: ExitStack = field(default_factory=ExitStack)

    @property
    def of_sending(self) -> dict[str, str]:
        """Fewer transactions."""
        return {shop.RATE: str(_PER_SECOND)}

    @property
    def delta_tables(self) -> list[tuple[Path, str, dict[str, str]]]:
        """Of each the folder of its files, its address, and what a client of the store needs."""
        assert self.tables is not None  # noqa: S101  (make_sinks_ground gives them)
        lake = self.tables.folder / LAKE
        at = {"AWS_ENDPOINT_URL": f"http://{HOST}:{self.s3.port}", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        address = f"s3://{self.s3.bucket}/{BUCKET}"
        return [(lake, str(lake), {}), (self.s3.objects / BUCKET, address, {**at, **self.s3.environment})]

    def prepare(self) -> None:
        """Start PostgreSQL and both proxies first: the schema is created there."""
        with suppress(InstallationError):  # it pays: a driver starts every half minute
            make_archive(("delta", "postgresql"))
        self.started.enter_context(self.server)
        with self.server.connect() as connection:
            role = f"CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}'; GRANT CREATE ON DATABASE postgres TO {ROLE}"
            connection.execute(role.encode())
        for one in (self.s3, self.puts, self.commits):
            self.started.enter_context(one)
        super().prepare()

    def close(self) -> None:
        """Stop all, and keep the logs of the stores and the objects."""
        with suppress(OSError, AttributeError):  # it was not started
            (self.folder / "postgresql.log").write_text(self.server.log, encoding="utf-8")
        with suppress(OSError):
            shutil.copytree(self.s3.folder, self.folder / "s3")
        self.started.close()
        super().close()

    def clear(self, *, keep_logs: bool) -> None:
        """Remove the folder: the database is gone with its server."""
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def settings(self) -> dict[str, str]:
        """Environment of the job and of the check service."""
        options = {"CHECKBACK_JOB__SPARK_OPTIONS": json.dumps(options_of(self.puts.port))}
        return {**super().settings(), **self.s3.environment, **options}


def make_sinks_ground() -> SinksGround:
    """A fresh place, in a temporary folder. Raises InstallationError when PostgreSQL is not installed."""
    port, s3 = free_port(), LocalS3()
    server = LocalPostgresql(port)
    commits = LosingProxy(free_port(), port, TO_COMMIT)
    puts = LosingProxy(free_port(), s3.port, TO_LOG_ENTRY)
    place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
    disk = Disk(place, size=_DISK_BYTES)
    database = Postgresql(f"postgresql://{ROLE}:{ROLE}@{HOST}:{commits.port}/postgres")
    return SinksGround(
        place,
        LocalKafka(place / "kafka", start_seconds=GIVE_UP_SECONDS),
        SettableClock(place),
        Tables(disk.folder / "tables", database, s3),
        disk,
        executors=0,
        server=server,
        s3=s3,
        commits=commits,
        puts=puts,
    )
