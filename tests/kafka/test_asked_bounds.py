"""Where a partition begins and ends, while brokers agree on who leads it, stop and start. The broker is a fake."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.consumer.listener import TopicPartition as Place
from checkback.consumer.pull.client import PullClient
from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.asked_bounds import asked_bounds

PLACE = TopicPartition("orders", 0)
UNKNOWN = KafkaError._UNKNOWN_PARTITION


class Answers:
    """Returns these in turn, the last from then on. Its metadata has ``partitions`` or a ``topic_error``."""

    def __init__(
        self, *answers: int | tuple[int, int] | None, partitions: int = 2, topic_error: int | None = None
    ) -> None:
        self._answers = list(answers)
        self.asked = 0
        error = None if topic_error is None else KafkaError(topic_error)
        self._topic = SimpleNamespace(error=error, partitions=dict.fromkeys(range(partitions)))

    def get_watermark_offsets(self, place: TopicPartition, seconds: float) -> tuple[int, int] | None:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: self._topic})


def ask(answers: Any, seconds: float = 10.0) -> Bounds:
    return asked_bounds(answers, PLACE, seconds)


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_leader_that_changes_is_waited_for(code: int) -> None:
    assert ask(Answers(code, code, (3, 7))) == Bounds(3, 7)


def test_one_that_stays_away_is_said_in_the_end() -> None:
    with pytest.raises(KafkaException, match="NOT_LEADER"):
        ask(Answers(KafkaError.NOT_LEADER_FOR_PARTITION), 0.0)


def test_anything_else_is_said_at_once() -> None:
    answers = Answers(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        ask(answers)
    assert answers.asked == 1


def test_no_answer_is_an_error() -> None:
    with pytest.raises(KafkaException, match="no answer"):
        ask(Answers(None))


def test_a_partition_that_is_unknown_for_a_moment_is_asked_for_again() -> None:
    assert ask(Answers(UNKNOWN, UNKNOWN, (3, 44))) == Bounds(3, 44)


@pytest.mark.parametrize("topic_error", [None, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_partition_that_kafka_lists_is_never_reported_as_missing(topic_error: int | None) -> None:
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        ask(Answers(UNKNOWN, topic_error=topic_error), 0.0)


@pytest.mark.parametrize(
    "missing",
    [Answers(UNKNOWN, topic_error=KafkaError.UNKNOWN_TOPIC_OR_PART), Answers(UNKNOWN, partitions=0)],
    ids=["topic", "partition"],
)
def test_a_partition_that_kafka_does_not_list_is_missing_at_once(missing: Answers) -> None:
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        ask(missing)
    assert missing.asked == 1


def test_a_topic_that_the_user_may_not_see_is_not_a_missing_one() -> None:
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        ask(Answers(UNKNOWN, topic_error=KafkaError.TOPIC_AUTHORIZATION_FAILED))


def pulling(answers: Any) -> PullClient:
    client = PullClient.__new__(PullClient)
    client._asking = answers
    return client


def test_a_pull_while_the_broker_stops_raises_and_leaves_the_offset_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.consumer.pull.client.ASK_SECONDS", 0.0)
    with pytest.raises(KafkaUnreachableError):
        pulling(Answers(UNKNOWN)).bounds(Place("orders", 0))


def test_a_pull_tells_a_missing_partition_from_one_that_is_forbidden() -> None:
    assert pulling(Answers(UNKNOWN, partitions=0)).bounds(Place("orders", 0)) is None
    with pytest.raises(ConfigurationError, match="orders"):
        pulling(Answers(UNKNOWN, topic_error=KafkaError.TOPIC_AUTHORIZATION_FAILED)).bounds(Place("orders", 0))
