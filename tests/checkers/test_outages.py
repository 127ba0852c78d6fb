"""What is ridden out while Kafka is away, and what is said of what is not."""

import logging

import pytest
from kafka import errors

from checkback.exceptions import CheckServiceError, ConfigurationError, KafkaUnreachableError, NotAllowedError
from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.outages import Outage
from checkers.service import explained
from conf import Settings

SETTINGS = Settings()


@pytest.mark.parametrize(
    "error",
    [
        *(errors.KafkaTimeoutError("late"), errors.KafkaConnectionError("gone"), errors.NodeNotReadyError(1)),
        *(errors.CoordinatorNotAvailableError(), errors.NotLeaderForPartitionError(), errors.RequestTimedOutError()),
        *(errors.UnknownMemberIdError(), errors.IllegalGenerationError(), errors.RebalanceInProgressError()),
        *(errors.UnknownTopicOrPartitionError(), errors.CommitFailedError("gone"), errors.UnknownError()),
        *(errors.BrokerNotAvailableError(), ConnectionResetError(), TimeoutError(), OSError(24, "too many files")),
    ],
    ids=repr,
)
def test_what_may_be_well_later_passes(error: Exception) -> None:
    assert passes(error)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (errors.TopicAuthorizationFailedError("cb.op"), NotAllowedError, "grant its user Write on the topic cb.op"),
        (
            errors.GroupAuthorizationFailedError("cb.checkers"),
            NotAllowedError,
            "Read on the group cb.checkers",
        ),
        (errors.SaslAuthenticationFailedError("no"), ConfigurationError, "correct kafka.security"),
        (
            errors.KafkaConfigurationError("no_such"),
            ConfigurationError,
            "cannot use kafka.security or",
        ),
        (errors.OffsetMetadataTooLargeError(), ConfigurationError, "set offset.metadata.max.bytes of the brokers"),
        (ZeroDivisionError("a mistake of ours"), CheckServiceError, "a mistake of ours"),
    ],
)
def test_what_does_not_pass_is_said_in_one_sentence(error: Exception, kind: type[Exception], said: str) -> None:
    assert not passes(error)
    told = explained(error, SETTINGS)
    assert type(told) is kind
    assert said in str(told)
    assert "\n" not in str(told)


def test_what_ends_it_may_be_started_again_unless_somebody_has_to_act() -> None:
    unreachable = explained(errors.KafkaConnectionError("gone"), SETTINGS)
    assert type(unreachable) is KafkaUnreachableError
    assert "localhost:9092" in str(unreachable)
    assert unreachable.retriable
    assert explained(ZeroDivisionError(), SETTINGS).retriable
    assert explained(OSError(24, "too many files"), SETTINGS).retriable
    assert not explained(errors.TopicAuthorizationFailedError("cb.op"), SETTINGS).retriable
    own = ConfigurationError("ours")
    assert explained(own, SETTINGS) is own


def test_pauses_grow_up_to_five_seconds_and_begin_anew_after_an_answer() -> None:
    outage = Outage("reading", lambda: 0)
    pauses = [outage.failed(TimeoutError()) for _ in range(8)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    outage.answered()
    assert outage.failed(TimeoutError()) == 0.1


def test_it_is_said_at_once_then_once_a_minute_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    times = iter(range(0, 1_000_000, 1_000))
    outage = Outage("reading", lambda: next(times))
    with caplog.at_level(logging.WARNING, "checkers"):
        outage.answered()
        for _ in range(150):
            outage.failed(TimeoutError("late"))
        outage.answered()
        outage.answered()
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(":")[0] for text in said] == [
        "Kafka does not answer (reading), for 0 s now; it is tried again, nothing is lost",
        "Kafka does not answer (reading), for 60 s now; it is tried again, nothing is lost",
        "Kafka does not answer (reading), for 120 s now; it is tried again, nothing is lost",
        "Kafka answers again (reading), after 150 s",
    ]
