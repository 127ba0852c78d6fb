"""Destinations beside Kafka in a fault run: their settings, and what lies in them, read without Spark."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from torture.oracle import Body, imprint

if TYPE_CHECKING:
    from torture.local_s3 import LocalS3
    from torture.postgresql import Postgresql

TOPICS = ("invoices", "ledger")
"""Topics whose messages go to every table; the second is in no Kafka."""

LAKE, FILES, WAREHOUSE, BUCKET = "lake", "files", "warehouse", "bucket"
_COLUMNS = ("id", "topic", "key", "value", "headers")


@dataclass(frozen=True)
class Tables:
    """A Delta table and Parquet files in ``folder``, a table in PostgreSQL when there is one, a Delta table in S3."""

    folder: Path
    postgresql: "Postgresql | None" = None
    s3: "LocalS3 | None" = None

    def environment(self) -> dict[str, str]:
        """Settings of the job."""
        tables = {
            LAKE: {"kind": "delta", "path": str(self.folder / LAKE)},
            FILES: {"kind": "parquet", "path": str(self.folder / FILES)},
        }
        if self.postgresql:
            tables[WAREHOUSE] = self.postgresql.settings()
        if self.s3:
            tables[BUCKET] = {"kind": "delta", "path": f"{self.s3.url}/{BUCKET}"}
        shared, alone = TOPICS
        rules = [{"topic": shared, "to": ["kafka", *tables]}, {"topic": alone, "to": list(tables)}]
        return {"CHECKBACK_SINKS__TABLES": json.dumps(tables), "CHECKBACK_SINKS__RULES": json.dumps(rules)}

    def found(self) -> dict[str, Mapping[str, Sequence[Body]]]:
        """All copies of every message in each table, by the table's name and the message's id."""
        tables = {LAKE: _delta_rows(self.folder / LAKE), FILES: _parquet_rows(self.folder / FILES)}
        if self.postgresql:
            tables[WAREHOUSE] = self.postgresql.rows(_COLUMNS)
        if self.s3:
            tables[BUCKET] = _delta_rows(self.s3.objects / BUCKET)
        return {name: _by_id(rows) for name, rows in tables.items()}


def _by_id(rows: Iterator[dict[str, Any]]) -> Mapping[str, Sequence[Body]]:
    found: defaultdict[str, list[Body]] = defaultdict(list)
    for row in rows:
        headers = tuple((header["key"], header["value"]) for header in row["headers"])
        found[row["id"]].append(Body(row["topic"], row["key"], imprint(row["value"]), headers))
    return found


def _delta_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The files that the table's log has added and not removed; its entries are never cleaned up so soon."""
    files: set[str] = set()
    for entry in sorted((folder / "_delta_log").glob("*.json")):
        for line in entry.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(unquote(action["add"]["path"]))
            elif "remove" in action:
                files.discard(unquote(action["remove"]["path"]))
    for file in sorted(files):
        yield from pq.ParquetFile(folder / file).read(list(_COLUMNS)).to_pylist()


def _parquet_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """What readers of a folder see: names with ``_`` or ``.`` in front are not for them."""
    for file in sorted(folder.rglob("*.parquet")):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts):
            yield from pq.ParquetFile(file).read(list(_COLUMNS)).to_pylist()
