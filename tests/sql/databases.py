"""Databases and isolation levels that what works in the application's database is tested on."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

SQLITE = ["sqlite", "sqlite-begin-wal"]
SNAPSHOTS = ["postgresql-repeatable-read", "postgresql-serializable"]
POSTGRESQL = ["postgresql-read-committed", *SNAPSHOTS]


def begin_by_event(engine: Engine) -> None:
    """SQLAlchemy's recipe for transactions that begin when they should, and write-ahead logging."""

    def connected(driver: Any, _: object) -> None:
        driver.isolation_level = None
        driver.execute("PRAGMA journal_mode = WAL")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


def engine_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if kind in SQLITE:
        engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
        if kind == "sqlite-begin-wal":
            begin_by_event(engine)
        return engine
    level = kind.removeprefix("postgresql-").replace("-", " ").upper()
    return create_engine(request.getfixturevalue("postgres"), isolation_level=level)
