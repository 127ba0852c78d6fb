"""The consumers' database of a fault run: a SQLite file, or a PostgreSQL, that may be one of the run's own.

The table of effects has no unique key but its rows' numbers: an effect that is booked twice is there twice.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    select,
)

from checkback.local.kafka import free_port
from checkback.sql.inbox import SqlInbox
from torture.effects.orders import GROUP
from torture.ground import database_at

if TYPE_CHECKING:
    from torture.local_postgresql import LocalPostgresql
    from torture.postgresql import Postgresql

LOCAL = "local"
"""In place of an address: a PostgreSQL of the run's own."""
CONSUMERS = "checkback-consumers"
"""What consumers call their sessions."""
_HARNESS = "checkback-torture"
_LOCK_SECONDS = 60
_ROLE = "torture"

EFFECTS = Table(
    "effects",
    MetaData(),
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", String(200), nullable=False),
    Column("partition", Integer, nullable=False),
    Column("key", String(80)),
    Column("place", BigInteger, nullable=False),
    Column("before", BigInteger),
    Column("tries", Integer, nullable=False),
    Column("at", Float, nullable=False),
)
"""``place`` is the message's offset; ``before`` the newest one of its partition and key whose effect was committed."""
_LANES = Index("effects_by_lane", EFFECTS.c.partition, EFFECTS.c.key, EFFECTS.c.place)


class Kind(StrEnum):
    """What can be done to it."""

    FILE = "a file"
    THERE = "a PostgreSQL"
    """Its connections can be cut."""
    OURS = "a PostgreSQL of the run's own"
    """It can be stopped as well."""


class Effect(NamedTuple):
    """A row."""

    number: int
    id: str
    partition: int
    key: str | None
    place: int
    before: int | None


@dataclass(frozen=True)
class EffectsDatabase:
    """Where effects and inbox lie."""

    url: str
    """For SQLAlchemy, as consumers use it."""
    postgresql: "Postgresql | None" = None
    server: "LocalPostgresql | None" = None
    """The run's own."""

    @property
    def kind(self) -> Kind:
        """What can be done to it."""
        return Kind.OURS if self.server else Kind.THERE if self.postgresql else Kind.FILE

    def prepare(self) -> None:
        """Make both tables."""
        engine = engine_of(self.url)
        EFFECTS.metadata.create_all(engine)
        SqlInbox(engine, GROUP).create()
        engine.dispose()

    def engine(self) -> Engine:
        """The harness's own, which a restart of the database does not trouble."""
        return engine_of(_text(self.postgresql, _HARNESS) if self.postgresql else self.url, look_first=True)

    def cut_connections(self, before: Callable[[], object]) -> int:
        """Those of all consumers; says how many. ``before`` is called right before."""
        return self.postgresql.cut_connections(CONSUMERS, before) if self.postgresql else 0

    def crash(self, before: Callable[[], object]) -> None:
        """Have the run's own end at once, whatever it does; likewise."""
        from torture.local_postgresql import Stop  # noqa: PLC0415  (it needs psycopg)

        self._own.stop(Stop.IMMEDIATE, before)

    def shut_down(self, before: Callable[[], object]) -> None:
        """Have the run's own end in order, whoever is connected; likewise."""
        from torture.local_postgresql import Stop  # noqa: PLC0415  (it needs psycopg)

        self._own.stop(Stop.FAST, before)

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self._own.start()

    def leave(self, folder: Path | None) -> str:
        """Remove what the run has made in it. ``folder``: for what somebody will want to look at; None: nobody.

        Returns:
            The schema that was left there, if one was.
        """
        if self.postgresql is None:
            return ""
        if folder is None:
            self.postgresql.remove()
            return ""
        if self.server is None:
            return self.postgresql.schema
        self._write(folder)
        (folder / "postgresql.log").write_text(self.server.log, encoding="utf-8")
        return ""

    @property
    def _own(self) -> "LocalPostgresql":
        assert self.server is not None  # noqa: S101  (its deck says so)
        return self.server

    def _write(self, folder: Path) -> None:
        with self.engine().connect() as connection:
            rows = [dict(row) for row in connection.execute(select(EFFECTS)).mappings()]
        (folder / "effects.json").write_text(json.dumps(rows), encoding="utf-8")


def in_file(folder: Path) -> EffectsDatabase:
    """A file there."""
    return EffectsDatabase(f"sqlite:///{folder / 'effects.db'}")


@contextmanager
def database_of(folder: Path, where: str) -> Iterator[EffectsDatabase]:
    """``where``: empty for a file in the folder, :data:`LOCAL`, or the address of a PostgreSQL.

    Raises:
        CheckbackError: there is none that can be used.
    """
    if not where:
        yield in_file(folder)
        return
    with ExitStack() as stack:
        server = stack.enter_context(_server()) if where == LOCAL else None
        postgresql = database_at(_with_role(server) if server else where)
        postgresql.prepare()
        yield EffectsDatabase(_text(postgresql, CONSUMERS), postgresql, server)


def engine_of(url: str, *, look_first: bool = False) -> Engine:
    """An engine. Unless it is to look first, whoever uses a connection that was cut finds that out."""
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=look_first)
    engine = create_engine(url, connect_args={"timeout": _LOCK_SECONDS})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        # the machine itself is not switched off in these tests, so the disk need not be waited for
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")

    return engine


def _server() -> "LocalPostgresql":
    from torture.local_postgresql import LocalPostgresql  # noqa: PLC0415  (it needs psycopg)

    return LocalPostgresql(free_port())


def _with_role(server: "LocalPostgresql") -> str:
    """The address by which its port is used, by somebody who may make a schema."""
    with server.connect() as connection:
        connection.execute(f"CREATE ROLE {_ROLE} LOGIN PASSWORD '{_ROLE}'")
        connection.execute(f"GRANT CREATE ON DATABASE postgres TO {_ROLE}")
    return f"postgresql://{_ROLE}:{_ROLE}@127.0.0.1:{server.port}/postgres"


def _text(postgresql: "Postgresql", application: str) -> str:
    return postgresql.address(application).render_as_string(hide_password=False)
