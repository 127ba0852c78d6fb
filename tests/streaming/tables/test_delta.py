"""What is Delta's own: the table as Delta reads it, and folders that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError, DestinationError
from streaming.tables.delta_table import DeltaTableDestination
from tests.place import AWKWARD_NAME, Place
from tests.streaming.tables.driver import Query, messages, publisher
from tests.tables import delta_table


def test_delta_reads_what_was_appended_and_nothing_else(query: Query, spark: SparkSession, tmp_path: Path) -> None:
    lake = delta_table(tmp_path / AWKWARD_NAME)
    for number in (0, 0, 1):
        query.driver(lake.sinks()).run(number, messages("orders", number))
    found = spark.read.format("delta").load(str(tmp_path / AWKWARD_NAME)).collect()
    assert sorted((row.id, bytes(row.value), row.headers) for row in found) == [
        ("tx-0", b"0", []),
        ("tx-1", b"1", []),
    ]


def test_a_commit_that_another_process_has_replaced_is_made_again(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta looks for an entry of its log, then renames its own to that name: between the two another one may come."""
    lake, settle = delta_table(tmp_path / "lake"), DeltaTableDestination._settle

    def replaced(self: DeltaTableDestination, application: str, number: int) -> bool:
        entry = tmp_path / "lake" / "_delta_log" / f"{number:020}.json"
        entry.write_text('{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE","operationParameters":{}}}\n')
        entry.with_name(f".{entry.name}.crc").unlink()
        entry.with_suffix(".crc").unlink(missing_ok=True)
        return settle(self, application, number)

    query.driver(lake.sinks()).run(0, messages("orders", 0))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTableDestination, "_settle", replaced)
        with pytest.raises(DestinationError, match=r"another process .* has replaced it"):
            query.driver(lake.sinks()).run(1, messages("orders", 1))
    query.driver(lake.sinks()).run(1, messages("orders", 1))
    assert sorted(row["id"] for row in lake.read()) == ["tx-0", "tx-1"]


COLUMNS = (
    "id STRING, topic STRING, partition INT, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, producer_group STRING, half STRING, batch BIGINT"
)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (f"{COLUMNS}, more STRING", ""),
        (COLUMNS.replace("id STRING", "ID STRING"), ""),
        (f"{COLUMNS}, day BIGINT NOT NULL GENERATED ALWAYS AS (batch + 1)", ""),
        (COLUMNS.replace("half STRING, ", ""), "has no column half of the type string"),
        (COLUMNS.replace("partition INT", "partition BIGINT"), "has no column partition of the type int"),
        (COLUMNS.replace("key BINARY,", "key BINARY NOT NULL,"), "refuses nulls in its column key"),
        (f"{COLUMNS}, more STRING NOT NULL", "has a column more that is NOT NULL"),
        (f"{COLUMNS}) TBLPROPERTIES (delta.setTransactionRetentionDuration = 'interval 1 hour')", "has the property"),
        (f"{COLUMNS}, more STRING NOT NULL COMMENT 'mine'", "has a column more that is NOT NULL"),
        (f"{COLUMNS}) TBLPROPERTIES (delta.constraints.early = 'batch < 9')", "constraint early: batch < 9"),
        (COLUMNS.replace("id STRING", "id VARCHAR(9)"), "own rule for the column id"),
        (COLUMNS.replace("half STRING", "half STRING GENERATED ALWAYS AS (id)"), "own rule for the column half"),
        (f"{COLUMNS}) PARTITIONED BY (batch, topic)", ""),
        (f"{COLUMNS}) PARTITIONED BY (key)", "is partitioned by key"),
        (f"{COLUMNS}) PARTITIONED BY (producer_group)", "is partitioned by producer_group"),
    ],
)
def test_a_table_that_cannot_take_a_batch_is_refused_at_start(
    offline: Place, spark: SparkSession, tmp_path: Path, columns: str, problem: str
) -> None:
    declared, _, properties = columns.partition(") ")
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'lake'}` ({declared}) USING delta {properties}")
    settings = offline.settings(sinks=delta_table(tmp_path / "lake").sinks())
    if problem:
        with pytest.raises(ConfigurationError, match=problem):
            publisher(settings, spark)
    else:
        publisher(settings, spark)


def commit(lake: Path, number: int, **action: Any) -> None:
    """An entry of the log as another program writes it."""
    (lake / "_delta_log" / f"{number:020}.json").write_text(json.dumps(action) + "\n")


def test_an_invariant_of_another_column_is_refused_at_start(
    offline: Place, spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    spark.sql(f"CREATE TABLE delta.`{lake}` ({COLUMNS}, more INT) USING delta")
    entry = lake / "_delta_log" / f"{0:020}.json"
    [metadata] = [found for line in entry.read_text().splitlines() if (found := json.loads(line).get("metaData"))]
    schema = json.loads(metadata["schemaString"])
    rule = json.dumps({"expression": {"expression": "more > 3"}})
    schema["fields"][-1]["metadata"] = {"delta.invariants": rule}
    commit(lake, 1, metaData={**metadata, "schemaString": json.dumps(schema)})
    with pytest.raises(ConfigurationError, match="own rule for the column more"):
        publisher(offline.settings(sinks=delta_table(lake).sinks()), spark)


@pytest.mark.parametrize("refuses", ["readers", "writers"])
def test_a_table_of_a_later_delta_is_refused_at_start(
    offline: Place, spark: SparkSession, tmp_path: Path, refuses: str
) -> None:
    lake = tmp_path / "lake"
    spark.sql(f"CREATE TABLE delta.`{lake}` ({COLUMNS}) USING delta")
    features = {"writerFeatures": ["later"], **({"readerFeatures": ["later"]} if refuses == "readers" else {})}
    commit(lake, 1, protocol={"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], **features})
    before = sorted(lake.rglob("*"))
    with pytest.raises(ConfigurationError, match=r"sinks\.tables\.lake: .*later"):
        publisher(offline.settings(sinks=delta_table(lake).sinks()), spark)
    assert sorted(lake.rglob("*")) == before


@pytest.mark.parametrize(("kind", "said"), [("delta", "is not a Delta table"), ("parquet", "is a Delta table")])
def test_a_folder_that_is_something_else_is_refused(
    offline: Place, spark: SparkSession, tmp_path: Path, kind: str, said: str
) -> None:
    (tmp_path / "there" / ("data.csv" if kind == "delta" else "_delta_log")).mkdir(parents=True)
    tables = {"there": {"kind": kind, "path": str(tmp_path / "there")}}
    sinks = {"rules": [{"topic": "*", "to": ["there"]}], "tables": tables}
    with pytest.raises(ConfigurationError, match=said):
        publisher(offline.settings(sinks=sinks), spark)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_folder_that_cannot_be_made_is_refused(
    offline: Place, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    tables = {"there": {"kind": kind, "path": str(tmp_path / "file" / "folder")}}
    sinks = {"rules": [{"topic": "*", "to": ["there"]}], "tables": tables}
    with pytest.raises(ConfigurationError, match=r"sinks\.tables\.there: the folder .* cannot be made"):
        publisher(offline.settings(sinks=sinks), spark)
