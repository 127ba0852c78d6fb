"""Tables that tests send messages to, one of each kind, and how to read each without Spark."""

import json
import uuid
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from psycopg.rows import dict_row

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Table:
    """A destination of a test."""

    name: str
    settings: dict[str, Any]
    read: Callable[[], Rows]
    break_it: Callable[[], None]
    """Make it fail, until it is repaired."""
    mend_it: Callable[[], None]

    def sinks(self, *rules: dict[str, Any]) -> dict[str, Any]:
        """Section [sinks]; without rules all messages go to this table only."""
        return {"rules": list(rules) or [{"topic": "*", "to": [self.name]}], "tables": {self.name: self.settings}}


def read_parquet(folder: Path) -> Rows:
    """As pyarrow's users read it."""
    if not folder.exists():
        return []
    rows: Rows = pa.dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return rows


def a_file_in_the_way(folder: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Swap a folder for a file, and back: for root, too, nothing can be written there then."""
    away = folder.with_name(f"{folder.name}.away")

    def break_it() -> None:
        folder.rename(away)
        folder.write_text("in the way")

    def mend_it() -> None:
        folder.unlink()
        away.rename(folder)

    return break_it, mend_it


def parquet_table(folder: Path) -> Table:
    settings = {"kind": "parquet", "path": str(folder)}
    return Table("files", settings, lambda: read_parquet(folder), *a_file_in_the_way(folder))


@dataclass(frozen=True)
class Database:
    """A PostgreSQL that asks for passwords on its port; ``socket`` is the way of its administrator."""

    port: int
    socket: dict[str, Any]
    url: str
    user: str = "job"
    password: str = "open sesame"  # noqa: S105  (of a server that lives for a test)

    def run(self, *statements: str) -> None:
        with psycopg.connect(**self.socket, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def settings(self, **more: Any) -> dict[str, Any]:
        named = {"url": self.url, "user": self.user, "password": self.password}
        return {"kind": "postgresql", **named, **more}


def postgresql_table(database: Database) -> Table:
    schema = f"s{uuid.uuid4().hex[:12]}"
    database.run(f"CREATE SCHEMA {schema} AUTHORIZATION {database.user}")

    def read() -> Rows:
        with psycopg.connect(**database.socket, row_factory=dict_row) as connection:
            rows = connection.execute(f"SELECT * FROM {schema}.messages".encode()).fetchall()  # noqa: S608  (ours)
        for row in rows:
            for header in row["headers"]:
                header["value"] = None if header["value"] is None else b64decode(header["value"])
        return rows

    def mend_it() -> None:
        database.run(f"ALTER ROLE {database.user} LOGIN")

    def break_it() -> None:
        database.run(f"ALTER ROLE {database.user} NOLOGIN")

    return Table("warehouse", database.settings(table=f"{schema}.messages"), read, break_it, mend_it)


def read_delta(folder: Path) -> Rows:
    """By the table's log, which is JSON: enough for a table that is only appended to and has no checkpoint yet."""
    actions = [
        json.loads(line) for file in sorted(folder.glob("_delta_log/*.json")) for line in file.read_text().splitlines()
    ]
    files = [folder / unquote(action["add"]["path"]) for action in actions if "add" in action]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def delta_table(folder: Path) -> Table:
    settings = {"kind": "delta", "path": str(folder)}
    return Table("lake", settings, lambda: read_delta(folder), *a_file_in_the_way(folder))
