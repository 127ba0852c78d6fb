"""The sink's task, on a real Kafka: once, whole, on the right partition, and fenced."""

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from kafka.partitioner.default import murmur2

from checkback.exceptions import InputCutShortError, ProgressError, TakenOverError
from checkback.local import LocalKafka
from state import TIMER, OutcomeKind, Tally
from streaming.batch.batch import Batch, summed_counts
from streaming.brokers.client import SinkSettings, producer_settings
from streaming.checkpoint.progress import transactional_id
from streaming.kafka_sink.partition_writer import write_partition
from streaming.kafka_sink.spill import ReplayableBatches
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.fence import fence
from streaming.ownership.generations import GENERATIONS_TRIED, Generations
from tests.place import Place, fresh_place, with_real_topic
from tests.streaming.outcomes import outcome, rows


@pytest.fixture(scope="module")
def whole(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Topics for all tests here: each has a query of its own."""
    with fresh_place(broker.bootstrap_servers, tmp_path_factory.mktemp("sink")) as made:
        yield made


@pytest.fixture
def place(whole: Place) -> Place:
    return with_real_topic(whole)


@pytest.fixture
def settings(place: Place) -> SinkSettings:
    return SinkSettings(place.bootstrap_servers, place.topics, 60_000)


def batch(number: int, query_id: str, entry_hash: str = "hash", *, first: bool = False) -> Batch:
    return Batch(query_id, number, entry_hash, first)


@pytest.fixture
def query_id() -> str:
    return uuid.uuid4().hex


def values(place: Place) -> list[bytes]:
    return sorted(record.value for record in place.read(place.real_topic))


def test_a_replayed_batch_is_skipped(place: Place, settings: SinkSettings, query_id: str) -> None:
    for _ in range(2):
        report = write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic)))
    assert report.skipped
    assert values(place) == [b"v"]


def test_of_a_batch_that_is_skipped_the_driver_learns_how_the_state_stands(
    place: Place, settings: SinkSettings, query_id: str
) -> None:
    """Else a job that was killed in its first batch would say that nothing is open, and know no usage."""
    count = {"kind": OutcomeKind.COUNT, "attempt": -1}
    said = (
        outcome(place.real_topic),
        outcome(place.real_topic, kind=OutcomeKind.OPEN, half_offset=4096, attempt=3, ingested_ms=100),
        outcome("", kind=OutcomeKind.USAGE, half_offset=3, ingested_ms=20, attempt=1, check_max=2),
        outcome("", **count, reason="state_bytes", half_offset=50),
        outcome("", **count, reason="committed", half_offset=1),
        *(outcome("", kind=OutcomeKind.COUNT, reason=name, attempt=8, half_offset=1) for name in (TIMER, "decision")),
    )
    first, again = (write_partition(settings, batch(0, query_id), 0, rows(*said)) for _ in range(2))
    assert (again.skipped, again.written) == (True, 0)
    assert (again.still_open, again.usages) == (first.still_open, first.usages)
    assert json.loads(again.still_open)
    assert json.loads(again.usages) == {"shop": [3, 20, 1, 2]}
    assert json.loads(first.counts) == {"state_bytes": 50, "committed": 1}
    assert json.loads(again.counts) == {"state_bytes": 50}
    assert summed_counts(Tally, [again.tallies]) == {Tally(TIMER, "shop", 8): 1}


def test_another_batch_of_the_same_number_stops_the_job(place: Place, settings: SinkSettings, query_id: str) -> None:
    write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic)))
    with pytest.raises(ProgressError):
        write_partition(settings, batch(0, query_id, "another"), 0, rows(outcome(place.real_topic)))
    assert values(place) == [b"v"]


def test_an_idle_partition_writes_its_progress_in_the_first_batch_only(
    place: Place, settings: SinkSettings, query_id: str
) -> None:
    write_partition(settings, batch(0, query_id, first=True), 0, rows())
    write_partition(settings, batch(1, query_id), 0, rows())
    report = write_partition(settings, batch(2, query_id), 0, rows(outcome(place.real_topic)))
    assert (report.skipped, report.written) == (False, 1)


def test_a_task_that_sleeps_in_its_transaction_is_fenced(place: Place, settings: SinkSettings, query_id: str) -> None:
    zombie = Producer(settings.client(**producer_settings(f"checkback-{query_id}-0", 60_000)))
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(place.real_topic, b"from the zombie")
    zombie.flush(120)
    write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic, value=b"once")))
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    assert values(place) == [b"once"]


def test_a_task_without_a_producer_yet_does_not_write_when_another_run_has_taken_over(
    place: Place, settings: SinkSettings, query_id: str
) -> None:
    """The other run has fenced whoever had one, and has put the batch under other rules perhaps."""
    first, second = Owner(query_id), Owner(query_id)
    with contextlib.closing(Claim(settings)) as claim:
        claim.take(first)
        write_partition(settings, replace(batch(0, query_id), run=first.run), 0, rows(outcome(place.real_topic)))
        claim.take(second)
        fence(settings, query_id, 1)
    with pytest.raises(TakenOverError):
        write_partition(settings, replace(batch(1, query_id), run=first.run), 0, rows(outcome(place.real_topic)))
    assert values(place) == [b"v"]
    write_partition(settings, replace(batch(1, query_id), run=second.run), 0, rows(outcome(place.real_topic)))
    assert values(place) == [b"v", b"v"]


def test_a_start_fences_a_task_that_sleeps_before_it_moves_on(
    place: Place, settings: SinkSettings, query_id: str
) -> None:
    """Its producer is open under a generation that does not hold yet; it would make that hold, and write."""
    sleepers = {
        ahead: Producer(settings.client(**producer_settings(transactional_id(query_id, 0, ahead), 60_000)))
        for ahead in range(1, GENERATIONS_TRIED + 1)
    }
    for sleeper in sleepers.values():
        sleeper.init_transactions(30)
    fence(settings, query_id, 1)
    holds = Generations(settings.client(), query_id, place.topics.progress)
    for ahead, sleeper in sleepers.items():
        offset, group = holds.mark(0, ahead)
        sleeper.begin_transaction()
        with pytest.raises(KafkaException):
            sleeper.send_offsets_to_transaction([offset], group, 30)
        assert holds.holding(0) == 0
    holds.close()


def test_a_failing_task_leaves_nothing_readable(place: Place, settings: SinkSettings, query_id: str) -> None:
    def torn() -> Iterator[pa.RecordBatch]:
        yield from rows(outcome(place.real_topic, value=b"torn"))
        raise RuntimeError("the state function failed")

    with pytest.raises(RuntimeError):
        write_partition(settings, batch(0, query_id), 0, torn())
    write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic, value=b"whole")))
    assert values(place) == [b"whole"]


def test_a_task_whose_rows_end_early_commits_nothing(
    place: Place, settings: SinkSettings, query_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplayableBatches, "whole", False)
    with pytest.raises(InputCutShortError):
        write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic, value=b"half of them")))
    monkeypatch.undo()
    report = write_partition(settings, batch(0, query_id), 0, rows(outcome(place.real_topic, value=b"all")))
    assert (report.skipped, values(place)) == (False, [b"all"])


def test_keyed_messages_lie_where_they_ask_to_or_where_javas_partitioner_puts_them(
    place: Place, settings: SinkSettings, query_id: str
) -> None:
    keys = [b"customer-%d" % number for number in range(50)] + [b"", b"\x00\xff", "Müller".encode()]
    keyed = [outcome(place.real_topic, key=key) for key in keys]
    asked = [outcome(place.real_topic, partition=number, key=b"same", value=b"asked") for number in range(4)]
    write_partition(settings, batch(0, query_id), 0, rows(*keyed, *asked))
    found = place.read(place.real_topic)
    assert sorted(record.partition for record in found if record.value == b"asked") == [0, 1, 2, 3]
    placed = {record.key: record.partition for record in found if record.value != b"asked"}
    assert placed == {key: (murmur2(key) & 0x7FFFFFFF) % 4 for key in keys}


def test_every_byte_arrives(place: Place, settings: SinkSettings, query_id: str) -> None:
    packed = '[{"key":"b","value":"AP8="},{"key":"a","value":""},{"key":"b","value":"MQ=="},{"key":"n"}]'
    cases = [
        outcome(place.real_topic, key=b"tombstone", value=None),
        outcome(place.real_topic, key=None, value=b"\x00\xff"),
        outcome(place.real_topic, key=b"", value=b"", headers=packed),
    ]
    write_partition(settings, batch(0, query_id), 0, rows(*cases))
    found = {record.key: (record.value, record.headers) for record in place.read(place.real_topic)}
    ours = ("cb-id", b"tx-1")
    assert found == {
        b"tombstone": (None, [ours]),
        None: (b"\x00\xff", [ours]),
        b"": (b"", [ours, ("b", b"\x00\xff"), ("a", b""), ("b", b"1"), ("n", None)]),
    }
