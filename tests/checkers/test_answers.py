"""Answers are written until Kafka has them. The producer is a fake."""

import threading
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, MessageSizeTooLargeError, NotLeaderForPartitionError

from checkback import HalfPosition, Topics
from checkback.kafka.outages import Outage
from checkback.wire.protocol import Action
from checkers.answers import Answer, AnswerWriter
from tests.checkers.kafka_fakes import FakeProducer


def answer(name: str, partition: int = 1) -> Answer:
    return Answer(name, "orders", HalfPosition(partition, 7), Action.COMMIT, "", name)


class Scene:
    """A writer whose pauses take no time."""

    def __init__(self) -> None:
        self.producer = FakeProducer()
        self.writer = AnswerWriter(Topics(), Outage("writing", lambda: 0))
        self.done: list[Any] = []
        self.pauses: list[float] = []
        self.writer._closing.wait = self._pause  # type: ignore[method-assign]  # on purpose, for this test

    def _pause(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return False

    def write(self, *answers: Answer) -> None:
        """Write these, until all are dealt with."""
        for one in answers:
            self.writer.put(one)
        thread = threading.Thread(target=self.writer.run, args=(self.producer, self._end))
        self._left = len(answers)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    def _end(self, origin: Any) -> None:
        self.done.append(origin)
        self._left -= 1
        if not self._left:
            self.writer.close()


def test_an_answer_goes_to_its_halfs_partition() -> None:
    scene = Scene()
    scene.write(answer("a", 0), answer("b", 1))
    assert scene.producer.sent == [(0, b"a"), (1, b"b")]
    assert scene.done == ["a", "b"]
    assert scene.writer.unwritten == 0


@pytest.mark.parametrize("error", [KafkaTimeoutError(), KafkaConnectionError(), NotLeaderForPartitionError()])
@pytest.mark.parametrize("how", ["refuses", "loses"])
def test_while_kafka_is_away_answers_wait_and_are_written_then(how: str, error: Exception) -> None:
    scene = Scene()
    getattr(scene.producer, how).extend([error] * 50)
    scene.write(answer("a"), answer("b"), answer("c"))
    assert sorted(scene.producer.sent) == [(1, b"a"), (1, b"b"), (1, b"c")]
    assert sorted(scene.done) == ["a", "b", "c"]
    assert sum(scene.pauses) > 60
    assert scene.writer.unwritten == 0


def test_what_kafka_never_takes_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.producer.loses = [MessageSizeTooLargeError()]
    scene.write(answer("a"), answer("b"))
    assert (scene.producer.sent, scene.done) == ([(1, b"b")], ["a", "b"])
    assert "was not written" in caplog.text
