"""What librdkafka tells of a transaction's records: nothing is committed that Kafka has not taken."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.consumer.clients.base import KafkaAwayError, RecordRefusedError
from checkback.consumer.clients.sender import _Reports


def test_all_that_were_taken_are_enough() -> None:
    reports = _Reports()
    for number in range(3):
        reports.heard(number, None, None)
    reports.all_taken(3)


def test_what_produce_refuses_at_once_is_not_committed_without() -> None:
    """As a partition that is gone, of a topic that was made again."""
    reports = _Reports()
    reports.heard(0, None, None)
    reports.heard(1, KafkaError(KafkaError._UNKNOWN_PARTITION), None)
    with pytest.raises(KafkaException):
        reports.all_taken(2)


def test_a_refusal_says_which_record_it_is_of() -> None:
    reports = _Reports()
    reports.heard(0, KafkaError(KafkaError._STATE), None)
    reports.heard(1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
    with pytest.raises(RecordRefusedError) as refused:
        reports.all_taken(2)
    assert refused.value.number == 1


def test_a_record_of_which_nothing_is_heard_is_none() -> None:
    reports = _Reports()
    reports.heard(0, None, None)
    with pytest.raises(KafkaAwayError, match="1 of 2 records"):
        reports.all_taken(2)
