"""How topics stand, from what brokers answer: with fake brokers and a fake clock."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.batch.record import Record
from streaming.brokers.directory import NO_SUCH_TOPIC, Described, Known, Standing, TopicDirectory
from streaming.kafka_sink.topic_limits import chosen_partition

WELL = Described(None, {0: (2, 3), 1: (2, 3)})
MISSING = Described(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), {})
LEADERLESS = Described(None, {0: (2, 3), 1: None})
SHORT = Described(None, {0: (2, 3), 1: (1, 3)})


class World:
    """Brokers that answer what a test says, and a clock."""

    def __init__(self, answer: Described = WELL) -> None:
        self.answer: Described | KafkaError = answer
        self.wanted = 1
        self.now = 1_000.0
        self.asked = 0
        brokers: Any = self
        self.directory = TopicDirectory(brokers, lambda: self.now)

    def describe(self, topic: str) -> Described:
        assert topic == "t"
        self.asked += 1
        if isinstance(self.answer, KafkaError):
            raise KafkaException(self.answer)
        return self.answer

    def wanted_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(topics, self.wanted)

    def look(self, *, again: bool = False) -> Standing:
        return self.directory.look(["t"], again=again)["t"]


def test_a_topic_that_is_well_is_asked_about_once_in_a_while() -> None:
    world = World()
    for _ in range(3):
        assert world.look() == Standing(2)
    assert world.asked == 1
    world.now += 10
    world.look()
    world.look(again=True)
    assert world.asked == 3


def test_a_topic_that_is_missing_is_asked_about_each_time_and_used_as_soon_as_it_is_there() -> None:
    world = World(MISSING)
    assert world.look() == world.look() == Standing(0, NO_SUCH_TOPIC)
    world.answer = WELL
    assert world.look() == Standing(2)


def test_a_partition_that_fails_over_is_not_away() -> None:
    world = World(LEADERLESS)
    assert world.look().away == {}
    world.now += 4.9
    assert world.look().away == {}
    world.answer = WELL
    world.look()
    world.now += 60
    world.answer = LEADERLESS
    assert world.look().away == {}


def test_a_partition_that_stays_without_a_leader_is_away_until_it_has_one() -> None:
    world = World(LEADERLESS)
    world.look()
    world.now += 5
    assert world.look() == Standing(2, "", {1: "that partition has no leader"})
    world.answer = WELL
    assert world.look() == Standing(2)


def test_too_few_replicas_in_sync_are_found_when_messages_wait() -> None:
    world = World(SHORT)
    known = Known(world.directory)
    known.learn(["t"])
    world.wanted = 2
    assert known.lost() == {}
    world.now += 5
    why = "1 of its replicas in sync, min.insync.replicas is 2"
    assert known.lost() == {"t": why}
    assert world.look().away == {1: why}, "the next batch is not made to wait"
    world.wanted = 1  # somebody has set it
    world.now += 60
    assert world.look().away == {}


def test_what_is_known_already_is_not_lost() -> None:
    world = World(LEADERLESS)
    world.look()
    world.now += 5
    known = Known(world.directory)
    known.learn(["t"])
    assert known.standings["t"].away
    assert known.lost() == {}


def test_a_topic_is_lost_only_when_two_looks_do_not_find_it() -> None:
    world = World()
    known = Known(world.directory)
    known.learn(["t"])
    world.answer = MISSING
    assert known.lost() == {}
    world.now += 2.5
    assert known.lost() == {"t": NO_SUCH_TOPIC}


def test_without_a_broker_to_ask_nothing_is_lost() -> None:
    world = World()
    known = Known(world.directory)
    known.learn(["t"])
    world.answer = KafkaError(KafkaError._TRANSPORT)
    with pytest.raises(KafkaException):
        known.lost()


def test_a_partition_that_did_not_take_a_message_in_time_is_left_alone_for_a_minute() -> None:
    world = World()
    world.look()
    world.directory.timed_out("t", 1)
    assert world.look().away.keys() == {1}
    world.now += 60
    assert world.look().away == {}


def test_a_topic_of_our_own_is_asked_about_with_patience() -> None:
    world = World(MISSING)
    known = Known(world.directory)
    known.learn(["t"])
    answers = [MISSING, WELL]
    world.describe = lambda topic: answers.pop(0)  # type: ignore[method-assign]  # noqa: ARG005  (as Kafka would)
    assert known.patiently("t", 30) == Standing(2)
    assert not answers


def test_a_topic_that_was_known_is_asked_about_again_once() -> None:
    world = World()
    known = Known(world.directory)
    known.learn(["t"])
    world.answer = Described(None, {**WELL.replicas, 2: (2, 3)})
    assert [known.again("t").partitions for _ in range(3)] == [3, 3, 3]
    assert world.asked == 2


def test_messages_without_a_key_go_to_partitions_that_are_there() -> None:
    record = Record("t", -1, None, b"v", [])
    assert {chosen_partition(record, 3, {0: "away", 2: "away"}) for _ in range(20)} == {1}
    assert chosen_partition(record, 2, {0: "away", 1: "away"}) == -1
    assert chosen_partition(record._replace(key=b"customer-1"), 4) in range(4)
    assert chosen_partition(record._replace(partition=3), 2, {0: "away"}) == 3


class Many:
    """Brokers that answer the same of each topic, and give up at far too many requests."""

    def __init__(self, answer: Described) -> None:
        self.answer = answer
        self.requests = 0

    def describe(self, topic: str) -> Described:
        return self.describe_several([topic])[topic]

    def describe_several(self, topics: Sequence[str]) -> dict[str, Described]:
        self.requests += 1
        assert self.requests < 10_000
        return dict.fromkeys(topics, self.answer)

    def wanted_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        self.requests += 1
        return dict.fromkeys(topics, 1)


def test_many_missing_topics_cost_a_few_requests_and_are_not_kept() -> None:
    many: Any = Many(MISSING)
    known = Known(directory := TopicDirectory(many, lambda: 1_000.0))
    known.learn([f"t{number}" for number in range(20_000)])
    assert many.requests == 20
    assert {standing.refusal for standing in known.standings.values()} == {NO_SUCH_TOPIC}
    assert known.lost() == {}
    assert many.requests == 20, "no message waits for a topic that was missing from the start"
    kept = [value for value in vars(directory).values() if hasattr(value, "__len__")]
    assert kept
    assert not any(kept), "their names are whatever a sender has written"


@pytest.mark.parametrize("answer", [MISSING, LEADERLESS])
def test_the_steps_of_a_look_grow_with_the_number_of_topics_and_not_its_square(answer: Described) -> None:
    many: Any = Many(answer)
    directory = TopicDirectory(many, lambda: 1_000.0)
    topics, steps = [f"t{number}" for number in range(2_000)], 0

    def step(_: Any, event: str, __: Any) -> None:
        nonlocal steps
        steps += event == "call"

    before = sys.getprofile()
    sys.setprofile(step)
    try:
        directory.look(topics)
    finally:
        sys.setprofile(before)
    assert steps < 50 * len(topics)


def test_a_few_topics_are_asked_about_singly_since_any_broker_answers_that() -> None:
    many: Any = Many(WELL)
    many.describe_several = None
    many.describe = lambda topic: {"t1": WELL, "t2": MISSING}[topic]
    found = TopicDirectory(many, lambda: 1_000.0).look(["t1", "t2", "t1"])
    assert found == {"t1": Standing(2), "t2": Standing(0, NO_SUCH_TOPIC)}
