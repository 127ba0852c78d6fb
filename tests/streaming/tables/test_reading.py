"""The readers in docs/sinks-*.md return each message once, also after a new checkpoint folder."""

import re
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import create_engine

from tests.streaming.tables.driver import Query, messages
from tests.tables import Table

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGES = {"lake": "sinks-delta", "files": "sinks-parquet", "warehouse": "sinks-postgresql"}


def test_a_reader_of_the_docs_returns_each_message_once(query: Query, spark: SparkSession, table: Table) -> None:
    query.driver(table.sinks()).run(0, messages("orders", 1, 2))
    query.id = "of a new checkpoint"
    (query.folder / "metadata").write_text('{"id":"of a new checkpoint"}')
    query.driver(table.sinks()).run(0, messages("orders", 1, 2, 3))
    blocks = _BLOCK.findall((ROOT / "docs" / f"{PAGES[table.name]}.md").read_text(encoding="utf-8"))
    for reader, code in zip(("pandas", "duckdb", "spark"), blocks, strict=True):
        known = {"spark": spark, "pandas": pd, "duckdb": duckdb, "deltalake": deltalake}
        if table.name == "warehouse":
            program, known["engine"] = _of_database(code, table.settings)
        else:
            program = re.sub(r"/data/(lake|files)", table.settings["path"], code)
        exec(program, known)  # noqa: S102  (it is ours)
        assert sorted(_ids(known["rows"])) == ["tx-1", "tx-2", "tx-3"], reader


def _of_database(code: str, settings: dict[str, Any]) -> tuple[str, Any]:
    url = settings["url"].removeprefix("jdbc:").replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, connect_args={"user": settings["user"], "password": settings["password"]})
    here = {
        "jdbc:postgresql://db/shop": settings["url"],
        '"messages"': f'"{settings["table"]}"',
        'FROM messages", engine': f'FROM {settings["table"]}", engine',
        '"reader"': f'"{settings["user"]}"',
        '"secret"': f'"{settings["password"]}"',
    }
    for documented, ours in here.items():
        code = code.replace(documented, ours)
    return code, engine


def _ids(rows: Any) -> list[str]:
    if isinstance(rows, DataFrame):
        return [row.id for row in rows.collect()]
    frame = rows.df() if hasattr(rows, "df") else rows
    return list(frame["id"])
