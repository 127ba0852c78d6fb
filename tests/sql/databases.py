"""Databases and isolation levels that what works in the application's database is tested on."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest
from django.db import Error as DjangoError
from sqlalchemy import URL, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError

from torture.local_mariadb import ON_MYSQL

SQLITE = ["sqlite", "sqlite-begin-wal"]
SNAPSHOTS = ["postgresql-repeatable-read", "postgresql-serializable"]
POSTGRESQL = ["postgresql-read-committed", *SNAPSHOTS]
STRICT = "mariadb-snapshot-isolation"
"""REPEATABLE READ as MariaDB has it by default from 11.6.2 on."""
MARIADB = ["mariadb-read-committed", "mariadb-repeatable-read", "mariadb-serializable", STRICT]
SERVERS = [*POSTGRESQL, *MARIADB]
ALL = [*SQLITE, *SERVERS]
PLAIN = {"sqlite3": "sqlite", "psycopg": "postgresql-read-committed", "pymysql": "mariadb-repeatable-read"}
"""The log without SQLAlchemy, and what it is on."""
DJANGO = {
    "django-sqlite": "sqlite",
    "django-postgresql": "postgresql-read-committed",
    "django-mariadb": "mariadb-repeatable-read",
    "django-postgresql-serializable": "postgresql-serializable",
}
"""Likewise, of log and inbox on Django's connections."""
DJANGO_EACH = list(DJANGO)[:3]
"""For tests in which the level decides nothing."""
ERRORS = (DBAPIError, sqlite3.Error, DjangoError)
"""Of whatever a log or an inbox is on."""
# the others: mysql+pymysql, to the same server
_DIALECTS = {} if ON_MYSQL else {"mariadb-read-committed": "mariadb+pymysql"}

_WAITING = {
    "postgresql": "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'",
    "mysql": "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}
_WAITING["mariadb"] = _WAITING["mysql"]


def begin_by_event(engine: Engine) -> None:
    """SQLAlchemy's recipe for transactions that begin when they should, and write-ahead logging."""

    def connected(driver: Any, _: object) -> None:
        driver.isolation_level = None
        driver.execute("PRAGMA journal_mode = WAL")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


def url_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    if kind in SQLITE:
        return make_url(f"sqlite:///{tmp_path / 'shop.db'}")
    if kind in POSTGRESQL:
        return cast("URL", request.getfixturevalue("postgres"))
    return cast("URL", request.getfixturevalue("mariadb")).set(drivername=_DIALECTS.get(kind, "mysql+pymysql"))


def level_of(kind: str) -> str | None:
    """The isolation level; None: SQLite's only one."""
    return None if kind in SQLITE else kind.split("-", 1)[1].replace("-", " ").upper()


def engine_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    kind = PLAIN.get(kind, kind)
    url = url_of(kind, request, tmp_path)
    if kind in SQLITE:
        engine = create_engine(url)
        if kind == "sqlite-begin-wal":
            begin_by_event(engine)
        return engine
    if kind != STRICT:
        return create_engine(url, isolation_level=level_of(kind))
    if ON_MYSQL:
        pytest.skip("MySQL has no such level.")
    connect = {"init_command": "SET SESSION innodb_snapshot_isolation = ON"}
    return create_engine(url, isolation_level="REPEATABLE READ", connect_args=connect)


def waits(engine: Engine, task: Future[Any]) -> Callable[[], bool]:
    """Whether it waits for a lock; of SQLite one cannot see it, only that it is not done."""
    if engine.dialect.name == "sqlite":
        return task.running

    def waiting() -> bool:
        with engine.connect() as connection:
            return connection.execute(text(_WAITING[engine.dialect.name])).first() is not None

    return waiting
