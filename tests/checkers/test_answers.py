"""Answers are written until Kafka has them. The producer is a fake."""

import threading
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback import HalfPosition, Topics
from checkback.wire.protocol import Action
from checkers import answers
from checkers.answers import Answer, AnswerWriter
from tests.checkers.kafka_fakes import FakeAnswers


def answer(name: str, partition: int = 1) -> Answer:
    return Answer(name, "orders", HalfPosition(partition, 7), Action.COMMIT, "", name)


class Scene:
    """A writer whose pauses take no time."""

    def __init__(self) -> None:
        self.producer = FakeAnswers()
        self.writer = AnswerWriter(Topics(), partial(next, count(0, 1000)))
        self.done: list[Any] = []
        self.postponed: list[Any] = []
        self.pauses: list[float] = []
        self.writer._closing.wait = self._pause  # type: ignore[method-assign]  # on purpose, for this test

    def _pause(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        return False

    def write(self, *answers: Answer) -> None:
        """Write these, until all are dealt with."""
        for one in answers:
            self.writer.put(one)
        thread = threading.Thread(target=self.writer.run, args=(self.producer, self._end, self._postpone))
        self._left = len(answers)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    def _postpone(self, origin: Any, reason: str) -> None:
        assert "cb.op refuses" in reason
        self.postponed.append(origin)
        self._left -= 1

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


def failed(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


_PASSING = (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._FATAL)


@pytest.mark.parametrize("error", [*map(failed, _PASSING), BufferError("Local: Queue full")], ids=str)
@pytest.mark.parametrize("how", ["refuses", "loses"])
def test_while_kafka_is_away_answers_wait_and_are_written_then(how: str, error: Exception) -> None:
    scene = Scene()
    getattr(scene.producer, how).extend([error] * 50)
    scene.write(answer("a"), answer("b"), answer("c"))
    assert sorted(scene.producer.sent) == [(1, b"a"), (1, b"b"), (1, b"c")]
    assert sorted(scene.done) == ["a", "b", "c"]
    assert sum(scene.pauses) > 60
    assert scene.writer.unwritten == 0


def test_what_kafka_refuses_is_written_when_it_takes_it_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.producer.loses = [failed(KafkaError.POLICY_VIOLATION), *[failed(KafkaError._UNKNOWN_PARTITION)] * 3]
    scene.write(answer("a"), answer("b", 4), answer("c"), answer("d"), answer("e"))
    assert scene.producer.sent[0] == (1, b"e")
    assert sorted(scene.producer.sent) == [(1, b"a"), (1, b"c"), (1, b"d"), (1, b"e"), (4, b"b")]
    assert (sorted(scene.done), scene.pauses, scene.writer.unwritten) == (["a", "b", "c", "d", "e"], [], 0)
    assert caplog.text.count("checkback topics create") == 1


def test_an_answer_for_a_half_message_that_no_partition_has_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.producer.loses = [failed(KafkaError._UNKNOWN_PARTITION)]
    scene.write(answer("nowhere", 5), answer("good"))
    assert (scene.done, scene.producer.sent) == (["nowhere", "good"], [(1, b"good")])
    assert "names no half message" in caplog.text


def test_of_many_answers_that_are_refused_some_checks_wait_in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_REFUSED", 2)
    scene = Scene()
    scene.producer.loses = [failed(KafkaError._UNKNOWN_PARTITION)] * 7
    scene.write(*map(answer, "abc"))
    assert (sorted(scene.done), scene.postponed) == (["a", "b"], ["c"])
    assert not scene.writer.full


def test_a_right_that_was_taken_away_is_waited_for_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.producer.loses = [failed(KafkaError.TOPIC_AUTHORIZATION_FAILED)] * 40
    scene.write(*map(answer, "abc"))
    assert sorted(scene.producer.sent) == [(1, b"a"), (1, b"b"), (1, b"c")]
    assert sum(scene.pauses) > 20
    assert caplog.text.count("grant its user Write on the topic cb.op") == 1
