"""Where a partition begins and ends, while brokers agree on who leads it. The broker is a fake."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.asked_bounds import asked_bounds

PLACE = TopicPartition("orders", 0)


class Answers:
    """Gives these in turn, the last one from then on."""

    def __init__(self, *said: int | tuple[int, int] | None) -> None:
        self._said = list(said)
        self.asked = 0

    def get_watermark_offsets(self, place: TopicPartition, seconds: float) -> tuple[int, int] | None:
        self.asked += 1
        said = self._said.pop(0) if len(self._said) > 1 else self._said[0]
        if isinstance(said, int):
            raise KafkaException(KafkaError(said))
        return said


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
