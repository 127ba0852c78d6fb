"""Databases and isolation levels that what works on Django's connections is tested on."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import IsolationLevel
from sqlalchemy import URL

LEVELS = {
    "postgresql-read-committed": IsolationLevel.READ_COMMITTED,
    "postgresql-repeatable-read": IsolationLevel.REPEATABLE_READ,
    "postgresql-serializable": IsolationLevel.SERIALIZABLE,
    "mariadb-read-committed": "read committed",
    "mariadb-repeatable-read": "repeatable read",
    "mariadb-serializable": "serializable",
}
EACH = ["sqlite", "postgresql-read-committed", "mariadb-read-committed"]
"""At the level that Django has by default."""


def settings_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """A database, as DATABASES has it."""
    if kind not in LEVELS:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "shop.db")}
    options = {"OPTIONS": {"isolation_level": LEVELS[kind]}}
    if kind.startswith("mariadb"):
        url: URL = request.getfixturevalue("mariadb")
        place: dict[str, Any] = {"ENGINE": "django.db.backends.mysql", "HOST": url.query["unix_socket"]}
    else:
        url = request.getfixturevalue("postgres")
        port = url.port or url.query.get("port")
        place = {"ENGINE": "django.db.backends.postgresql", "HOST": url.query["host"], "PORT": port}
    return {"USER": url.username, "NAME": url.database, **place, **options}
