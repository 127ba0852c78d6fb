"""Which answers of Kafka are waited out, and that an error of a single partition is one."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.kafka.librdkafka.groups import committed
from streaming.brokers.retrying import retrying, retrying_until

PLACES = [TopicPartition("cb.progress", 0), TopicPartition("cb.progress", 1)]


class Coordinator:
    """Answers in turn what it is given, as a consumer's group coordinator; the error of a partition cannot be set."""

    def __init__(self, *answers: list[int] | KafkaError) -> None:
        self._answers = list(answers)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[Any]:
        assert timeout > 0
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            return [SimpleNamespace(offset=-1001, metadata=None, error=answer) for _ in places]
        return [SimpleNamespace(offset=offset, metadata="", error=None) for offset in answer]


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT])
def test_what_may_pass_is_asked_again(code: int) -> None:
    coordinator: Any = Coordinator(KafkaError(code), [7, -1001])
    assert [one.offset for one in retrying(30)(committed, coordinator, PLACES)] == [7, -1001]


def test_a_partition_that_kafka_says_nothing_of_is_not_one_without_an_offset() -> None:
    coordinator: Any = Coordinator(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), [7, 7])
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        retrying(30)(committed, coordinator, PLACES)


def test_patience_ends() -> None:
    coordinator: Any = Coordinator(*[KafkaError(KafkaError.NOT_COORDINATOR)] * 3)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        retrying(0)(committed, coordinator, PLACES)


@pytest.mark.parametrize("patient", [retrying(0), retrying_until(bool, 0)])
def test_an_error_keeps_no_client(patient: Any) -> None:
    """A client that a circle keeps takes a core while brokers are away; Spark's workers collect no garbage."""
    coordinator: Any = Coordinator(KafkaError(KafkaError.NOT_COORDINATOR))
    kept = weakref.ref(coordinator)
    gc.disable()
    try:
        with pytest.raises(KafkaException) as raised:
            patient(committed, coordinator, PLACES)
        del raised, coordinator
        assert kept() is None
    finally:
        gc.enable()
