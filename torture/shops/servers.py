"""The two database servers of a run with shops, with one face: what can be done to each of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from torture.local_mariadb import LocalMariadb
from torture.local_postgresql import LocalPostgresql, Stop
from torture.shops.kinds import Where

Before = Callable[[], object]
"""Called right before."""


class Server(Protocol):
    """A database server of the run's own."""

    @property
    def url(self) -> str:
        """For SQLAlchemy."""

    @property
    def log(self) -> str:
        """What it has said."""

    def crash(self, before: Before) -> None:
        """End it at once, whatever it does."""

    def shut_down(self, before: Before) -> None:
        """End it in order, whoever is connected."""

    def start(self) -> None:
        """Start it again, and wait until it answers."""

    def cut_connections(self, before: Before) -> int:
        """End all connections to it; says how many."""


class Mariadb:
    """A MariaDB."""

    def __init__(self, server: LocalMariadb) -> None:
        self._server = server
        self.start = server.start
        self.crash = server.kill

    @property
    def url(self) -> str:
        """Of its socket."""
        return self._server.url.render_as_string(hide_password=False)

    @property
    def log(self) -> str:
        """What it has said."""
        return self._server.log

    def shut_down(self, before: Before) -> None:
        """SIGTERM."""
        self._server.stop(before=before)

    def cut_connections(self, before: Before) -> int:
        """KILL of each."""
        there = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND command <> 'Daemon'"
        return _cut(self.url, there, "KILL {}", before)


class Postgresql:
    """A PostgreSQL."""

    def __init__(self, server: LocalPostgresql) -> None:
        self._server = server
        self.start = server.start

    @property
    def url(self) -> str:
        """Of its socket."""
        return self._server.url.render_as_string(hide_password=False)

    @property
    def log(self) -> str:
        """What it has said."""
        return self._server.log

    def crash(self, before: Before) -> None:
        """All its processes at once; it recovers from its log."""
        self._server.stop(Stop.IMMEDIATE, before)

    def shut_down(self, before: Before) -> None:
        """Whoever is connected is cut off."""
        self._server.stop(Stop.FAST, before)

    def cut_connections(self, before: Before) -> int:
        """``pg_terminate_backend`` of each."""
        there = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        return _cut(self.url, there, "SELECT pg_terminate_backend({})", before)


@contextmanager
def servers() -> Iterator[Mapping[Where, Server]]:
    """Start one of each.

    Raises:
        CheckbackError: it is not installed here, or did not start.
    """
    with ExitStack() as stack:
        mariadb, postgresql = LocalMariadb(), LocalPostgresql()  # both first: nothing is begun that cannot be had
        yield {
            Where.MARIADB: Mariadb(stack.enter_context(mariadb)),
            Where.POSTGRESQL: Postgresql(stack.enter_context(postgresql)),
        }


def _cut(url: str, there: str, end: str, before: Before) -> int:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    cut = 0
    try:
        with engine.connect() as connection:
            found = [int(number) for number in connection.scalars(text(there))]
            before()
            for number in found:
                try:
                    connection.execute(text(end.format(number)))
                    cut += 1
                except DBAPIError:  # it has gone by itself
                    continue
    finally:
        engine.dispose()
    return cut
