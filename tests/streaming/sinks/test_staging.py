"""What a task takes out of the outcomes and stages: pure Arrow, no Spark and no Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkback.exceptions import DestinationError
from checkback.protocol import Message, pack
from state import BUNDLE, Kind
from streaming.sinks import staging
from streaming.sinks.routes import Routes
from streaming.sinks.staging import Staging, StagingPlan, file_system_of
from tests.streaming.outcomes import SCHEMA, outcome

RULES = Routes.of([("table-*", ["lake"]), ("both", ["kafka", "lake", "files"]), ("*-loud", ["files"])])


def plan(folder: Path) -> StagingPlan:
    return StagingPlan(7, RULES, {"lake": f"{folder}/lake", "files": f"{folder}/files"})


def staged(folder: Path, *outcomes: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """What is left for Kafka, and what each destination gets."""
    task = Staging(plan(folder), 1)
    batch = pa.RecordBatch.from_pylist(list(outcomes), schema=SCHEMA)
    left = [row for piece in task.take(iter([batch])) for row in piece.to_pylist()]
    found = {file.destination: pq.read_table(file.file).to_pylist() for file in task.files}
    assert {file.destination: file.rows for file in task.files} == {name: len(rows) for name, rows in found.items()}
    return left, found


def test_the_first_rule_that_matches_holds() -> None:
    routes = [RULES.of_topic(topic) for topic in ("table-loud", "very-loud", "both", "other", "Both")]
    assert routes == [("lake",), ("files",), ("kafka", "lake", "files"), ("kafka",), ("kafka",)]


def test_each_destination_gets_its_rows_and_kafka_the_rest(tmp_path: Path) -> None:
    rows = [outcome(topic, tx_id=topic) for topic in ("table-1", "other", "both", "table-2")]
    left, found = staged(tmp_path, *rows)
    assert [row["tx_id"] for row in left] == ["other", "both"]
    assert {name: [row["id"] for row in rows] for name, rows in found.items()} == {
        "lake": ["table-1", "both", "table-2"],
        "files": ["both"],
    }
    assert {row["batch"] for row in found["lake"]} == {7}


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.DELIVER, Kind.DELIVER_BUNDLE}))
def test_only_what_is_delivered_goes_to_tables(kind: Kind, tmp_path: Path) -> None:
    left, found = staged(tmp_path, outcome("table-1", kind=kind), outcome("both", kind=kind))
    assert ([row["kind"] for row in left], found) == ([kind, kind], {})


def test_what_was_held_for_kafka_has_been_in_its_tables_since_then(tmp_path: Path) -> None:
    held = outcome(
        "both", tx_id="held", headers='[{"key":"cb-held","value":"MSAyIDM6NA=="},{"key":"h","value":"MQ=="}]'
    )
    named = r'[{"key":"\"key\":\"cb-held\"","value":"MQ=="}]'
    left, found = staged(tmp_path, held, outcome("both", tx_id="plain", headers=named), {**held, "topic": "table-1"})
    assert [row["tx_id"] for row in left] == ["held", "plain", "held"], "a topic's rules may have changed since"
    assert {name: [row["id"] for row in rows] for name, rows in found.items()} == {
        "lake": ["plain"],
        "files": ["plain"],
    }


def bundle(*added: Message, **columns: Any) -> dict[str, Any]:
    named = {"kind": Kind.DELIVER_BUNDLE, "partition": BUNDLE, "value": pack(added), "tx_id": "b"}
    return outcome(added[0].topic, **(named | columns))


def test_a_bundle_for_kafka_alone_stays_whole(tmp_path: Path) -> None:
    whole = bundle(Message("other", b"1"), Message("another", b"2"))
    left, found = staged(tmp_path, whole)
    assert (left, found) == ([whole], {})


def test_messages_of_a_bundle_keep_their_ids_and_places(tmp_path: Path) -> None:
    mixed = bundle(
        Message("other", b"1", b"k", [("h", b"\xff")], 3),
        Message("table-1", None, b"k"),
        Message("both", b"3"),
        headers='[{"key":"cb-own","value":"MQ=="},{"key":"c","value":"Yw=="}]',
    )
    around = [outcome("other", tx_id="before"), mixed, outcome("table-1", tx_id="after")]
    left, found = staged(tmp_path, *around, outcome("other", tx_id="last"))
    assert [(row["tx_id"], row["kind"], row["partition"]) for row in left] == [
        ("before", Kind.DELIVER, -1),
        ("b#1", Kind.DELIVER, 3),
        ("b#3", Kind.DELIVER, -1),
        ("last", Kind.DELIVER, -1),
    ]
    assert left[1]["headers"] == '[{"key":"h","value":"/w=="},{"key":"c","value":"Yw=="}]'
    assert [(row["id"], row["value"], row["half"]) for row in found["lake"]] == [
        ("b#2", None, "0:7"),
        ("b#3", b"3", "0:7"),
        ("after", b"v", "0:7"),
    ]
    assert found["lake"][0]["headers"] == [{"key": "c", "value": b"c"}]


def test_rows_are_staged_in_row_groups_not_in_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_ROW_GROUP_BYTES", 1_000)
    task = Staging(plan(tmp_path), 0)
    pieces = [pa.RecordBatch.from_pylist([outcome("table-1", value=bytes(600))] * 2, schema=SCHEMA)] * 3
    assert list(task.take(iter(pieces))) == []
    (file,) = task.files
    assert (pq.ParquetFile(file.file).num_row_groups, file.rows) == (3, 6)


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def torn() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([outcome("table-1")], schema=SCHEMA)
        raise RuntimeError("the state function failed")

    task = Staging(plan(tmp_path), 0)
    with pytest.raises(RuntimeError):
        list(task.take(torn()))
    assert (task.files, [*tmp_path.rglob("*.parquet")]) == ([], [])


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("in the way")
    task = Staging(plan(tmp_path), 0)
    with pytest.raises(DestinationError, match="Rows for destination lake cannot be staged in") as error:
        list(task.take(iter([pa.RecordBatch.from_pylist([outcome("table-1")], schema=SCHEMA)])))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("uri", ["/a b/c", "file:/a b/c", "file:///a b/c"])
def test_local_folders_by_any_of_their_names(uri: str) -> None:
    files, path = file_system_of(uri)
    assert (type(files), path) == (pa.fs.LocalFileSystem, "/a b/c")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_hadoops_name_of_an_object_store_is_arrows(scheme: str) -> None:
    files, path = file_system_of(f"{scheme}://bucket/a/b?region=eu-central-1")
    assert (type(files), path) == (pa.fs.S3FileSystem, "bucket/a/b")
