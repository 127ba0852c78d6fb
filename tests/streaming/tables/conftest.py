"""One table of each kind."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.local import LocalKafka
from checkback.wire.protocol import Topics
from tests.place import Place, fresh_place
from tests.streaming.tables.driver import Query
from tests.tables import Table, delta_table, parquet_table, postgresql_table


@pytest.fixture(params=["parquet", "postgresql", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table of each kind."""
    if request.param == "postgresql":
        return postgresql_table(request.getfixturevalue("database"))
    if request.param == "delta":
        return delta_table(tmp_path / "lake")
    return parquet_table(tmp_path / "files")


@pytest.fixture
def other(tmp_path: Path) -> Table:
    """A second destination, the quickest one."""
    made = parquet_table(tmp_path / "other")
    return Table("other", made.settings, made.read, made.break_it, made.mend_it)


@pytest.fixture(scope="module")
def _topics(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with fresh_place(broker.bootstrap_servers, tmp_path_factory.mktemp("topics")) as made:
        yield made


@pytest.fixture
def place(_topics: Place, tmp_path: Path) -> Place:
    """The topics of all tests of a module: each has a query, and so a claim and a progress, of its own."""
    return replace(_topics, folder=tmp_path)


@pytest.fixture
def offline(tmp_path: Path) -> Place:
    """Settings of a job that Kafka is not asked for."""
    return Place("nowhere:1", Topics("t."), "t.orders", tmp_path)


@pytest.fixture
def query(place: Place, spark: SparkSession) -> Iterator[Query]:
    made = Query(place, spark)
    yield made
    made.close()
