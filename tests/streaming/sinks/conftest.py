"""One table of each kind, and how to read it without Spark."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from tests.place import Place
from tests.streaming.sinks.driver import Query

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Table:
    """A destination of a test."""

    name: str
    settings: dict[str, Any]
    read: Callable[[], Rows]
    break_it: Callable[[], None]
    """Make it fail, until it is mended."""
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


@pytest.fixture(params=["parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table of each kind."""
    return parquet_table(tmp_path / "files")


@pytest.fixture
def other(tmp_path: Path) -> Table:
    """A second destination, the quickest one."""
    made = parquet_table(tmp_path / "other")
    return Table("other", made.settings, made.read, made.break_it, made.mend_it)


@pytest.fixture
def query(place: Place, spark: SparkSession) -> Query:
    return Query(place, spark)
