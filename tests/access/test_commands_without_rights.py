"""Each right of a reader or an operator that is taken away makes one clear error, which names it."""

import pytest
from typer.testing import CliRunner

from access import Operation, ResourceKind, Right, Role, Whom, rights_of
from checkback import Message, TransactionProducer
from checkback.exceptions import CheckbackError, NotAllowedError
from checkback.kafka.kafka_python.errors import refused
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.kafka_python.repairs import is_hidden
from checkback.kafka.topic_reading import partitions_of, reading_consumer
from checkback_cli import app
from tests.access.guarded import ORDERS, TOPICS, Guarded, guarded, settings_file

__all__ = ["guarded"]
READERS = rights_of(Role.READER, Whom())
OPERATORS = [right for right in rights_of(Role.OPERATOR, Whom()) if right not in READERS]
_READING = {
    TOPICS.half: ("show", "abcd"),
    TOPICS.op: ("status",),
    TOPICS.parked: ("parked", "list"),
    TOPICS.rejected: ("rejected",),
    TOPICS.status: ("open",),
    TOPICS.producers: ("groups",),
    TOPICS.progress: ("status",),
    "checkback-": ("status",),
    f"{TOPICS.prefix}job": ("status",),
}
"""Of those who show what is there, one that needs the right."""


def said(here: Guarded, user: str, words: tuple[str, ...]) -> str:
    """What a command prints, or ends with: as ``checkback_cli.app.run`` has it."""
    try:
        return CliRunner().invoke(app, [*words, "--config", settings_file(here, user)], catch_exceptions=False).output
    except CheckbackError as error:
        return str(error)
    except KafkaError as error:
        return str(refused(error) or error)


def command(right: Right) -> tuple[str, ...]:
    if right.operation is Operation.DESCRIBE_CONFIGS:
        return "topics", "list"
    if right.name in _READING:
        return _READING[right.name]
    if right.kind is ResourceKind.GROUP:
        return "offsets", "show", "--group", right.name
    return "read", right.name, "--wait", "100ms"


@pytest.fixture(scope="module")
def reader(guarded: Guarded) -> str:
    guarded.let_in("reader", Role.READER)
    return "reader"


@pytest.mark.parametrize("right", READERS, ids=str)
def test_of_a_reader(guarded: Guarded, reader: str, right: Right) -> None:
    guarded.take(reader, right)
    try:
        found = said(guarded, reader, command(right))
    finally:
        guarded.give(reader, right)
    assert f"grant its user {right}. (" in found or f"grant {right}" in found, found


@pytest.fixture(scope="module")
def open_half(guarded: Guarded) -> str:
    """The place of an undecided half message of a lane."""
    with TransactionProducer(
        guarded.kafka.bootstrap_servers, "shop", transport="confluent-kafka", delivery="direct"
    ) as producer:
        return str(producer.prepare(Message(ORDERS, b"v")).half)


@pytest.mark.parametrize("right", OPERATORS, ids=str)
def test_of_an_operator(guarded: Guarded, open_half: str, right: Right) -> None:
    guarded.let_in("operator", Role.OPERATOR)
    guarded.take("operator", right)
    found = said(guarded, "operator", ("rollback", "--half", open_half, "--yes", "--why", "they said so"))
    guarded.give("operator", right)
    assert f"grant its user {right}. (" in found, found


def test_a_topic_that_is_hidden_is_told_from_one_that_is_not_there(guarded: Guarded) -> None:
    guarded.user("nobody")
    consumer = reading_consumer(guarded.servers, options=guarded.options("nobody"))
    try:
        with pytest.raises(NotAllowedError, match=f"grant its user Read on the topic {ORDERS}"):
            partitions_of(consumer, ORDERS)
        assert (is_hidden(consumer, ORDERS), is_hidden(consumer, "none.such")) == (True, True), "Kafka tells nobody"
    finally:
        consumer.close()
    powerful = reading_consumer(guarded.kafka.bootstrap_servers)
    try:
        assert (partitions_of(powerful, "none.such"), is_hidden(powerful, "none.such")) == ([], False)
        assert "none.such" not in powerful.topics(), "asking makes none"
    finally:
        powerful.close()
