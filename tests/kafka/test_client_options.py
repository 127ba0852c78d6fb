"""Which of a user's client options go where, and which are refused."""

import pytest

from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import GroupClient
from checkback.exceptions import ConfigurationError, WrongOptionError
from checkback.kafka.client_options import of_reaching, refuse_options
from checkback.kafka.connecting import TransportName, connect


def test_further_clients_take_what_says_how_kafka_is_reached() -> None:
    reaching = {"security.protocol": "SSL", "ssl_cafile": "ca.pem", "sasl.username": "shop", "client.rack": "a"}
    of_others = {"acks": 1, "session.timeout.ms": 6_000, "max_in_flight_requests_per_connection": 9, "on_commit": print}
    assert of_reaching({**reaching, **of_others, "metadata.broker.list": "x:1"}) == reaching


def test_what_a_promise_rests_on_is_refused_and_its_own_value_is_not() -> None:
    fixed: dict[str, tuple[object, ...]] = {"acks": ("all", -1), "transactional.id": ()}
    refuse_options({"acks": -1, "linger.ms": 5}, fixed, "a producer")
    with pytest.raises(ConfigurationError, match="'acks' of a producer: only 'all' or -1"):
        refuse_options({"acks": 0}, fixed, "a producer")
    with pytest.raises(ConfigurationError, match=r"must not set 'transactional\.id'"):
        refuse_options({"transactional.id": "mine"}, fixed, "a producer")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (TransportName.KAFKA_PYTHON, {"acks": 0, "enable_idempotence": False}),
        (TransportName.KAFKA_PYTHON, {"bootstrap_servers": "elsewhere:1"}),
        (TransportName.CONFLUENT, {"acks": 0, "enable.idempotence": False}),
        (TransportName.CONFLUENT, {"delivery.report.only.error": True}),
        (TransportName.CONFLUENT, {"bootstrap.servers": "elsewhere:1"}),
    ],
)
def test_a_producer_whose_word_would_mean_nothing_is_not_made(name: TransportName, options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="kafka_options must not set"):
        connect(name, "nowhere:1", 5_000, options)


def test_the_newer_group_protocol_is_refused_by_its_own_name() -> None:
    """The message of librdkafka names the assignment strategy, which is an option of ours."""
    connection = Connection("nowhere:1", "points", "test", {"group.protocol": "consumer"})
    with pytest.raises(WrongOptionError, match=r"must not set 'group\.protocol' of a consumer: only 'classic'"):
        GroupClient(connection)


@pytest.mark.parametrize("wrong", [0, -1, 50, 10**12, "2000", 2.5, True, None], ids=repr)
def test_a_half_timeout_that_cannot_be(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="half_timeout_ms must be"):
        connect(TransportName.KAFKA_PYTHON, "nowhere:1", wrong, {})  # type: ignore[arg-type]  # the test
