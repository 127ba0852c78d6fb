"""Databases and isolation levels that what works on Django's connections is tested on."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from psycopg import IsolationLevel
from sqlalchemy import URL

from checkback.django.testing import recorded_messages
from checkback.testing import RecordingTransport
from tests.django.shop import DjangoShop, drop_tables, in_place, make_tables
from tests.sql.postgres import running_postgres

LEVELS = {
    "postgresql-read-committed": IsolationLevel.READ_COMMITTED,
    "postgresql-repeatable-read": IsolationLevel.REPEATABLE_READ,
    "postgresql-serializable": IsolationLevel.SERIALIZABLE,
}
KINDS = ["sqlite", "sqlite-wal", *LEVELS]


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A real PostgreSQL, started when the first test asks for it."""
    with running_postgres() as url:
        yield url


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def settings_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """A database, as DATABASES has it."""
    if kind not in LEVELS:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "shop.db")}
    url: URL = request.getfixturevalue("postgres")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": url.query["host"],
        "PORT": url.port or url.query.get("port"),
        "USER": url.username,
        "NAME": url.database,
        "OPTIONS": {"isolation_level": LEVELS[kind]},
    }


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DjangoShop]:
    """A shop in a database of its own, which is ``default`` meanwhile."""
    with in_place("default", settings_of(kind, request, tmp_path)):
        if kind == "sqlite-wal":
            with connections["default"].cursor() as cursor:
                cursor.execute("PRAGMA journal_mode = WAL")  # the file keeps it
        drop_tables("default")
        make_tables("default")
        yield DjangoShop()


@pytest.fixture
def other(shop: DjangoShop, tmp_path: Path) -> Iterator[None]:
    """A second database beside it."""
    with ExitStack() as stack:
        stack.enter_context(
            in_place("other", {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.db")})
        )
        make_tables("other")
        yield


@pytest.fixture
def recording() -> Iterator[RecordingTransport]:
    with recorded_messages() as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    yield
    connections.close_all()
