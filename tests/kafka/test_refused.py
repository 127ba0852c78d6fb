"""Which errors of kafka-python are refusals that name a right."""

import pytest
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)

from checkback.kafka.kafka_python.errors import refused

OTHERS = [KafkaConnectionError(ConnectionResetError(104, "reset")), NodeNotReadyError(1), KafkaConnectionError()]


@pytest.mark.parametrize("error", [*OTHERS, TopicAuthorizationFailedError(set())], ids=repr)
def test_an_error_that_is_no_refusal_or_names_nothing_is_none(error: KafkaError) -> None:
    assert refused(error) is None


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("points"), TopicAuthorizationFailedError({"orders"})])
def test_a_refusal_names_what_is_refused(error: KafkaError) -> None:
    assert str(error.args[0]).strip("{'}") in str(refused(error))
