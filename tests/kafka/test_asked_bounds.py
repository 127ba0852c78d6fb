"""Where a partition ends, asked while its broker stops and starts."""

from collections.abc import Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.consumer.listener import TopicPartition as Place
from checkback.consumer.pull.client import PullClient
from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.asked_bounds import asked_bounds

PLACE = TopicPartition("orders", 1)
UNKNOWN = KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))


class Answers:
    """A consumer whose broker lists the topic with ``partitions`` or ``topic_error``, whatever it says of its ends."""

    def __init__(
        self, ends: list[KafkaException | tuple[int, int]], partitions: int = 2, topic_error: int | None = None
    ) -> None:
        self._ends: Iterator[KafkaException | tuple[int, int]] = chain(ends, repeat(ends[-1]))
        error = None if topic_error is None else KafkaError(topic_error)
        self._topic = SimpleNamespace(error=error, partitions=dict.fromkeys(range(partitions)))

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        answer = next(self._ends)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: self._topic})

    def close(self) -> None:
        """Nothing is open."""


def ask(answers: Answers, seconds: float = 5.0) -> Bounds:
    return asked_bounds(answers, PLACE, seconds)  # type: ignore[arg-type] # what it needs of a consumer


def code_of(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = raised.value.args[0].code()
    return code


def test_a_partition_that_is_unknown_for_a_moment_is_asked_for_again() -> None:
    assert ask(Answers([UNKNOWN, UNKNOWN, (3, 44)])) == Bounds(3, 44)


@pytest.mark.parametrize("topic_error", [None, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_partition_that_kafka_lists_is_never_reported_as_missing(topic_error: int | None) -> None:
    with pytest.raises(KafkaException) as raised:
        ask(Answers([UNKNOWN], topic_error=topic_error), seconds=0.0)
    assert code_of(raised) == KafkaError._TIMED_OUT


@pytest.mark.parametrize(
    "missing", [Answers([UNKNOWN], topic_error=KafkaError.UNKNOWN_TOPIC_OR_PART), Answers([UNKNOWN], partitions=1)]
)
def test_a_partition_that_kafka_does_not_list_is_missing_at_once(missing: Answers) -> None:
    with pytest.raises(KafkaException) as raised:
        ask(missing)
    assert code_of(raised) == KafkaError._UNKNOWN_PARTITION


def test_a_topic_that_the_user_may_not_see_is_not_a_missing_one() -> None:
    with pytest.raises(KafkaException) as raised:
        ask(Answers([UNKNOWN], topic_error=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert code_of(raised) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def pulling(answers: Answers) -> PullClient:
    client = PullClient.__new__(PullClient)
    client._asking = answers
    return client


def test_a_pull_while_the_broker_stops_raises_and_leaves_the_offset_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.consumer.pull.client.ASK_SECONDS", 0.0)
    with pytest.raises(KafkaUnreachableError):
        pulling(Answers([UNKNOWN])).bounds(Place("orders", 1))


def test_a_pull_tells_a_missing_partition_from_one_that_is_forbidden() -> None:
    assert pulling(Answers([UNKNOWN], partitions=1)).bounds(Place("orders", 1)) is None
    with pytest.raises(ConfigurationError, match="orders"):
        pulling(Answers([UNKNOWN], topic_error=KafkaError.TOPIC_AUTHORIZATION_FAILED)).bounds(Place("orders", 1))
