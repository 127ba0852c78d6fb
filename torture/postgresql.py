"""A PostgreSQL of the user's in a fault run: it needs psycopg, so only runs with a database import it."""

import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from checkback.exceptions import ConfigurationError

_JOB = "checkback"
"""What jobs call their sessions."""


@dataclass(frozen=True)
class Postgresql:
    """A database for a fault run, and a schema of its own for each run. The job speaks TCP to it, with a password."""

    url: str
    """``postgresql://user:password@host:port/database``."""
    schema: str = field(default_factory=lambda: f"torture_{uuid.uuid4().hex[:12]}")

    def prepare(self) -> None:
        """Make the schema.

        Raises:
            ConfigurationError: the database cannot be used, or the address says less than a job needs.
        """
        # first: what libpq cannot read it says whole, password and all
        if not self._is_whole():
            raise ConfigurationError("--postgresql must be postgresql://user:password@host:port/database.")
        try:
            with self._connection() as connection:
                connection.execute(f'CREATE SCHEMA "{self.schema}"')
        except psycopg.Error as error:
            raise ConfigurationError(f"The database of --postgresql cannot be used: {str(error).strip()}") from error

    def remove(self) -> None:
        """Drop the schema, with all that is in it."""
        with self._connection() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')

    def settings(self) -> dict[str, str]:
        """The table's, for ``[sinks.tables]``."""
        parts = make_url(self.url)
        return {
            "kind": "postgresql",
            "url": f"jdbc:postgresql://{parts.host}:{parts.port or 5432}/{parts.database}",
            "table": f"{self.schema}.messages",
            "user": parts.username or "",
            "password": parts.password or "",
        }

    def address(self, application: str) -> URL:
        """For SQLAlchemy, in the run's schema; sessions are called that."""
        query = {"options": f"-csearch_path={self.schema}", "application_name": application}
        return make_url(self.url).set(drivername="postgresql+psycopg").update_query_dict(query)

    def cut_connections(self, application: str = _JOB, before: Callable[[], object] = lambda: None) -> int:
        """End every session that is called so, and say how many those were. ``before`` is called right before."""
        cut = """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = %s AND usename = current_user AND datname = current_database()
        """
        with self._connection() as connection:
            before()
            return len(connection.execute(cut, [application]).fetchall())

    def rows(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """These columns of all rows, ``headers`` as they were sent; none before a job has made the table."""
        with self._connection() as connection:
            made = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{self.schema}".messages']).fetchone()
            if made != (True,):
                return
            table = sql.Identifier(self.schema, "messages")
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            for row in connection.execute(sql.SQL("SELECT {} FROM {}").format(names, table)):
                found = dict(zip(columns, row, strict=True))
                headers = [
                    {**one, "value": None if one["value"] is None else b64decode(one["value"])}
                    for one in found["headers"]
                ]
                yield {**found, "headers": headers}

    def _is_whole(self) -> bool:
        try:
            parts = make_url(self.url)
        except ArgumentError:
            return False
        return parts.drivername == "postgresql" and bool(parts.host and parts.username and parts.database)

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=10)
