"""What a task takes out of the outcomes and stages: pure Arrow, no Spark and no Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkback.exceptions import DestinationError
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message, Topics
from state import BUNDLE, OutcomeKind
from streaming.kafka_sink.content import Contents
from streaming.kafka_sink.half_reader import HalfReader
from streaming.tables import staging
from streaming.tables.routes import Routes
from streaming.tables.staging import Staging, StagingPlan, file_system_of
from tests.place import AWKWARD_NAME
from tests.streaming.outcomes import SCHEMA, outcome

RULES = Routes.of([("table-*", ["lake"]), ("both", ["kafka", "lake", "files"]), ("*-loud", ["files"])])


def plan(folder: Path) -> StagingPlan:
    return StagingPlan(7, RULES, {"lake": f"{folder}/lake", "files": f"{folder}/files"})


Staged = tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]


def staged(folder: Path, *outcomes: dict[str, Any], contents: Contents | None = None) -> Staged:
    """What is left for Kafka, and what each destination gets."""
    task = Staging(plan(folder), 1, contents)
    batch = pa.RecordBatch.from_pylist(list(outcomes), schema=SCHEMA)
    left = [row for piece in task.take(iter([batch])) for row in piece.to_pylist()]
    found = {file.destination: pq.read_table(file.file).to_pylist() for file in task.files}
    assert {file.destination: file.rows for file in task.files} == {name: len(rows) for name, rows in found.items()}
    return left, found


def test_the_first_rule_that_matches_holds() -> None:
    routes = [RULES.of_topic(topic) for topic in ("table-loud", "very-loud", "both", "other", "Both")]
    assert routes == [("lake",), ("files",), ("kafka", "lake", "files"), ("kafka",), ("kafka",)]


def test_each_destination_gets_its_rows_and_kafka_the_rest(tmp_path: Path) -> None:
    rows = [outcome(topic, transaction_id=topic) for topic in ("table-1", "other", "both", "table-2")]
    left, found = staged(tmp_path, *rows)
    assert [row["transaction_id"] for row in left] == ["other", "both"]
    assert {name: [row["id"] for row in rows] for name, rows in found.items()} == {
        "lake": ["table-1", "both", "table-2"],
        "files": ["both"],
    }
    assert {row["batch"] for row in found["lake"]} == {7}


OF_MESSAGES = {
    *(OutcomeKind.DELIVER, OutcomeKind.DELIVER_BUNDLE),
    *(OutcomeKind.BY_LANE, OutcomeKind.BY_LANE_BUNDLE),
}


@pytest.mark.parametrize("kind", sorted(set(OutcomeKind) - OF_MESSAGES))
def test_only_what_is_delivered_goes_to_tables(kind: OutcomeKind, tmp_path: Path) -> None:
    left, found = staged(tmp_path, outcome("table-1", kind=kind), outcome("both", kind=kind))
    assert ([row["kind"] for row in left], found) == ([kind, kind], {})


def test_what_was_held_for_kafka_has_been_in_its_tables_since_then(tmp_path: Path) -> None:
    held = outcome(
        "both", transaction_id="held", headers='[{"key":"cb-held","value":"MSAyIDM6NA=="},{"key":"h","value":"MQ=="}]'
    )
    named = r'[{"key":"\"key\":\"cb-held\"","value":"MQ=="}]'
    null = outcome("both", transaction_id="null", headers='[{"key":"cb-held"}]')
    left, found = staged(
        tmp_path,
        *(held, null, outcome("both", transaction_id="plain", headers=named)),
        *({**held, "topic": "table-1"}, {**null, "topic": "table-1"}),
    )
    assert [row["transaction_id"] for row in left] == ["held", "null", "plain", "held"], (
        "a topic's rules may have changed since"
    )
    assert {name: [row["id"] for row in rows] for name, rows in found.items()} == {
        "lake": ["null", "plain", "null"],
        "files": ["null", "plain"],
    }


def bundle(*added: Message, **columns: Any) -> dict[str, Any]:
    named = {"kind": OutcomeKind.DELIVER_BUNDLE, "partition": BUNDLE, "value": pack(added), "transaction_id": "b"}
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
    around = [outcome("other", transaction_id="before"), mixed, outcome("table-1", transaction_id="after")]
    left, found = staged(tmp_path, *around, outcome("other", transaction_id="last"))
    assert [(row["transaction_id"], row["kind"], row["partition"]) for row in left] == [
        ("before", OutcomeKind.DELIVER, -1),
        ("b#1", OutcomeKind.DELIVER, 3),
        ("b#3", OutcomeKind.DELIVER, -1),
        ("last", OutcomeKind.DELIVER, -1),
    ]
    assert left[1]["headers"] == '[{"key":"h","value":"/w=="},{"key":"c","value":"Yw=="}]'
    assert [(row["id"], row["value"], row["half"]) for row in found["lake"]] == [
        ("b#2", None, "0:7"),
        ("b#3", b"3", "0:7"),
        ("after", b"v", "0:7"),
    ]
    assert found["lake"][0]["headers"] == [{"key": "c", "value": b"c"}]


class HalfTopic:
    """Half messages by their offsets; what was asked for."""

    def __init__(self, **values: bytes) -> None:
        self._values = {int(name.removeprefix("at_")): value for name, value in values.items()}
        self.asked: list[int] = []

    def read(self, _partition: int, offsets: list[int]) -> Iterator[tuple[int, Any]]:
        self.asked += offsets
        for offset in sorted(offsets):
            yield offset, Half(self._values[offset]) if offset in self._values else None


class Half:
    """As confluent-kafka gives it."""

    def __init__(self, value: bytes) -> None:
        self.value = lambda: value
        self.key = lambda: b"k"
        self.headers = lambda: [("cb-id", b"tx-1"), ("cb-group", b"shop"), ("cb-messages", b"2")]


def aside(topic: str, offset: int, **columns: Any) -> dict[str, Any]:
    given = {"value": None, "left_out": 20_000, "half_offset": offset, **columns}
    return outcome(topic, **given)


def test_content_is_read_again_for_tables_and_not_yet_for_kafka(tmp_path: Path) -> None:
    half = HalfTopic(at_1=b"one", at_3=b"three")
    given = [aside("table-1", 1), aside("other", 2), aside("both", 3), aside("other", 4), aside("other", 5, kind=2)]
    left, found = staged(tmp_path, *given, contents=Contents(Topics(), lambda: cast("HalfReader", half)))
    assert [(row["half_offset"], row["value"], row["left_out"]) for row in left] == [
        (2, None, 20_000),
        (3, b"three", -1),
        (4, None, 20_000),
        (5, None, 20_000),
    ]
    assert [(row["value"], row["key"]) for row in found["lake"]] == [(b"one", b"k"), (b"three", b"k")]
    assert half.asked == [1, 3]


def test_several_messages_that_were_set_aside_are_looked_into(tmp_path: Path) -> None:
    kafka_alone = pack([Message("other", b"1"), Message("another", b"2")])
    mixed = pack([Message("other", b"1"), Message("table-1", b"2")])
    half = HalfTopic(at_1=kafka_alone, at_2=mixed, at_3=b"none at all")
    several = {"kind": OutcomeKind.DELIVER_BUNDLE, "partition": BUNDLE, "headers": None, "transaction_id": "tx-1"}
    given = [aside("other", at, **several) for at in (1, 2, 3, 4)]
    contents = Contents(Topics(), lambda: cast("HalfReader", half))
    left, found = staged(tmp_path, outcome("other"), *given, outcome("other", transaction_id="last"), contents=contents)
    kinds = (
        OutcomeKind.DELIVER,
        OutcomeKind.DELIVER_BUNDLE,
        OutcomeKind.DELIVER,
        OutcomeKind.REJECT_RECORD,
        OutcomeKind.PARK,
        OutcomeKind.DELIVER,
    )
    assert [row["kind"] for row in left] == list(kinds)
    assert left[1] == given[0], "Kafka's part of the task reads it"
    assert [(row["id"], row["value"]) for row in found["lake"]] == [("tx-1#2", b"2")]
    assert contents.counts == {"malformed": 1, "parked": 1, "gone": 1}


def test_what_lanes_have_delivered_is_for_tables_alone(tmp_path: Path) -> None:
    mixed = pack([Message("other", b"1"), Message("table-1", b"2")])
    half = HalfTopic(at_1=b"large", at_2=mixed)
    by_lane = {"kind": OutcomeKind.BY_LANE}
    several = {"kind": OutcomeKind.BY_LANE_BUNDLE, "partition": BUNDLE, "headers": None}
    given = [
        outcome("other", transaction_id="first"),
        *(outcome(topic, transaction_id=topic, **by_lane) for topic in ("other", "both")),
        *(aside("both", at, **by_lane, transaction_id="tx-1") for at in (1, 9)),
        *(aside("other", at, **by_lane) for at in (1, 9)),
        aside("other", 2, **several, transaction_id="tx-1"),
        outcome("both", transaction_id="last"),
    ]
    contents = Contents(Topics(), lambda: cast("HalfReader", half))
    left, found = staged(tmp_path, *given, contents=contents)
    assert [(row["transaction_id"], row["kind"]) for row in left] == [
        ("tx-1", OutcomeKind.PARK),
        ("first", OutcomeKind.DELIVER),
        ("last", OutcomeKind.DELIVER),
    ]
    assert [(row["id"], row["value"]) for row in found["lake"]] == [
        *(("both", b"v"), ("tx-1", b"large"), ("tx-1#2", b"2"), ("last", b"v"))
    ]
    assert contents.counts == {"parked": 1, "gone": 1}


def test_what_was_held_for_kafka_is_known_though_its_headers_were_set_aside(tmp_path: Path) -> None:
    held = Half(b"held")
    held.headers = lambda: [("cb-id", b"tx-1"), ("cb-group", b"shop"), ("cb-held", b"1 2 3:4")]
    half = HalfTopic()
    half.read = lambda _partition, offsets: iter([(offsets[0], held)])  # type: ignore[method-assign]  # on purpose, for this test
    contents = Contents(Topics(), lambda: cast("HalfReader", half))
    left, found = staged(tmp_path, aside("both", 1), contents=contents)
    assert ([row["value"] for row in left], found) == ([b"held"], {})


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
    files, path = file_system_of(f"{scheme}://bucket/{AWKWARD_NAME}/b?region=eu-central-1")
    assert (type(files), path) == (pa.fs.S3FileSystem, f"bucket/{AWKWARD_NAME}/b")
