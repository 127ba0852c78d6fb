"""A command that waits for records says, once, that Kafka does not answer."""

from typing import Any

from kafka.errors import KafkaTimeoutError

from checkback_cli.terminal.reading import AwayNotice


class Consumer:
    """Stands for kafka-python's."""

    def __init__(self) -> None:
        self.away = False
        self.asked = 0

    def assignment(self) -> set[Any]:
        return set()

    def end_offsets(self, _: list[Any], timeout_ms: int) -> dict[Any, int]:
        self.asked += 1
        if self.away:
            raise KafkaTimeoutError
        return {}


def test_it_is_said_once_and_that_it_is_over() -> None:
    said: list[str] = []
    consumer, now = Consumer(), [0.0]
    notice = AwayNotice(consumer, said.append, lambda: now[0])

    def look(seconds: float) -> None:
        now[0] += seconds
        notice.look()

    look(1)
    assert consumer.asked == 0
    look(5)
    assert said == []
    consumer.away = True
    look(5)
    look(5)
    assert said == ["Kafka does not answer (KafkaTimeoutError): waiting for it."]
    consumer.away = False
    look(5)
    look(5)
    assert said[1:] == ["Kafka answers again."]
