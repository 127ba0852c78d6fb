"""Partitions that an open Kafka transaction holds back are seen."""

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from conf import Settings
from streaming.brokers.client import SinkSettings
from streaming.fairness.held_back import (
    HeldBack,
    HeldBackWatch,
    HeldPartition,
    PartitionEnds,
    PartitionId,
    named_writer,
    read_ends,
)
from streaming.job import TransactionJob
from streaming.observing.metrics import JobMetrics
from tests.place import HALF_PARTITIONS, wait_until
from tests.place import Place as Topics

HALF, OP = PartitionId("cb.half", 0), PartitionId("cb.op", 3)
STEADY, STUCK = PartitionEnds(7, 7), PartitionEnds(5, 7)


def test_a_partition_is_held_back_since_the_first_look_that_found_it_so() -> None:
    held = HeldBack()
    assert held.look({HALF: STEADY, OP: STUCK}, 100) == {HALF: 0, OP: 0}
    assert held.look({HALF: STEADY, OP: PartitionEnds(5, 9)}, 105) == {HALF: 0, OP: 5}
    assert held.look({HALF: STUCK, OP: STUCK}, 111) == {HALF: 0, OP: 11}
    assert held.look({HALF: STUCK, OP: STEADY}, 112) == {HALF: 1, OP: 0}
    assert held.look({OP: STUCK}, 120) == {OP: 0}


def test_one_whose_stable_end_moves_is_not() -> None:
    held = HeldBack()
    for second in range(0, 100, 5):
        assert held.look({OP: PartitionEnds(second, second + 3)}, second) == {OP: 0}
        assert held.warnings(second) == []


def test_it_is_warned_of_after_10_s_then_once_a_minute_and_anew_after_an_end() -> None:
    held = HeldBack()

    def warned(found: PartitionEnds, now: float) -> list[HeldPartition]:
        held.look({HALF: STEADY, OP: found}, now)
        return held.warnings(now)

    assert [second for second in range(200) if warned(STUCK, second)] == [10, 70, 130, 190]
    assert warned(STUCK, 250) == [HeldPartition(OP, 5, 250)]
    assert warned(STEADY, 400) == warned(STUCK, 401) == warned(STUCK, 410) == []
    assert warned(STUCK, 411) == [HeldPartition(OP, 5, 10)]


def test_a_partition_that_is_not_found_is_forgotten() -> None:
    held = HeldBack()
    held.look({OP: STUCK}, 0)
    held.look({}, 30)
    assert held.warnings(30) == []


def test_the_warning_says_which_partition_and_how_long(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[PartitionId, float]] = []
    watch = HeldBackWatch({}, [], lambda _: " (producer 12)", lambda place, seconds: told.append((place, seconds)))
    with caplog.at_level(logging.WARNING):
        watch.look({OP: STUCK}, 60)
        assert caplog.text == ""
        watch.look({OP: STUCK}, 100)
    assert "partition 3 of cb.op has been held back by an open transaction (producer 12) for 40 s" in caplog.text
    assert "nothing behind offset 5 is read" in caplog.text
    assert told == [(OP, 0), (OP, 40)]


def test_a_look_that_fails_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.fairness.held_back._LOOK_SECONDS", 0.01)
    looks: list[object] = []

    def fail(*found: object) -> None:
        looks.append(found)
        raise OSError("no Kafka")

    monkeypatch.setattr("streaming.fairness.held_back.read_ends", fail)
    watch = HeldBackWatch({"bootstrap.servers": "nowhere:1", "log_level": 0}, [], lambda _: "", lambda *_: None)
    watch.start()
    wait_until(lambda: len(looks) > 2)
    watch.stop()
    watch.stop()
    assert not watch._thread.is_alive()


def test_who_asks_for_the_ends_gets_those_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.fairness.held_back._LOOK_SECONDS", 600)
    monkeypatch.setattr("streaming.fairness.held_back._FRESH_SECONDS", 0)
    ends, told = [PartitionEnds(1, 1)], list[PartitionEnds]()
    monkeypatch.setattr("streaming.fairness.held_back.read_ends", lambda *_: {HALF: ends[-1]})
    watch = HeldBackWatch({}, [], lambda _: "", lambda *_: None, lambda found: told.append(found[HALF]))
    watch.ask()
    assert not told, "it was not started, and nobody waits for it"
    watch.start()
    try:
        watch.ask()
        ends.append(PartitionEnds(9, 9))
        watch.ask()
        assert told[-1] == PartitionEnds(9, 9)
    finally:
        watch.stop()


def test_what_else_a_look_does_is_not_tried_again_at_once_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.fairness.held_back._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("streaming.fairness.held_back.read_ends", lambda *_: {HALF: STEADY})
    looks, tries = list[object](), list[object]()

    def fail(admin: AdminClient) -> None:
        tries.append(admin)
        if len(tries) > 1:
            raise OSError("the group may not be read")

    client = {"bootstrap.servers": "nowhere:1", "log_level": 0}
    watch = HeldBackWatch(client, [], lambda _: "", lambda *_: None, looks.append, more=fail)
    watch.start()
    wait_until(lambda: len(looks) > 5)
    watch.stop()
    assert len(tries) == 2


def test_stopping_before_the_start_is_harmless() -> None:
    HeldBackWatch({}, [], lambda _: "", lambda *_: None).stop()


def test_the_metric_has_a_row_for_each_partition() -> None:
    metrics = JobMetrics("job")
    metrics.held_back(OP, 40.0)
    metrics.held_back(HALF, 0.0)

    def sample(place: PartitionId) -> float | None:
        labels = {"topic": place.topic, "partition": str(place.partition)}
        found: float | None = metrics.registry.get_sample_value("checkback_partition_held_back_seconds", labels)
        return found

    assert (sample(OP), sample(HALF)) == (40.0, 0.0)


@pytest.fixture
def transaction(place: Topics) -> Iterator[Producer]:
    """A producer in the midst of a transaction on the op topic's partition 1."""
    name = {"transactional.id": place.topics.prefix + "long"}
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, **name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(place.topics.op, b"first", partition=1)
    producer.flush(120)
    yield producer
    producer.abort_transaction(30)


def test_a_real_one_is_seen_and_named(place: Topics, transaction: Producer) -> None:
    with_others = place.producer()
    with_others.send(place.topics.op, b"behind it", partition=1).get(120)
    with_others.send(place.topics.op, b"beside it", partition=0).get(120)
    with_others.close()
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    topics = (place.topics.half, place.topics.op)
    found = read_ends(admin, topics)
    assert found.keys() == {PartitionId(topic, number) for topic in topics for number in range(HALF_PARTITIONS)}
    stuck = PartitionId(place.topics.op, 1)
    assert found.pop(stuck) == PartitionEnds(0, 2)
    assert all(ends.stable == ends.end for ends in found.values())
    writer = named_writer(place.bootstrap_servers, {})(HeldPartition(stuck, 0, 40))
    assert writer.endswith(f", transactional id '{place.topics.prefix}long')")
    assert named_writer(place.bootstrap_servers, {"no_such_option": 1})(HeldPartition(stuck, 0, 40)) == ""

    transaction.commit_transaction(30)
    wait_until(lambda: read_ends(admin, topics)[stuck] == PartitionEnds(3, 3))
    transaction.begin_transaction()  # the fixture ends it


def test_the_job_looks_at_all_that_it_reads() -> None:
    job = TransactionJob(Settings())
    assert job._watch(SinkSettings.of(Settings()))._topics == ["cb.half", "cb.op", "cb.later"]
