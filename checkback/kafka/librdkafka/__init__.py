"""Of confluent-kafka: makes its clients. Options that it does not have it refuses itself, by name."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.exceptions import WrongOptionError
from checkback.kafka.client_options import refuse_options
from checkback.kafka.librdkafka.errors import WRONG_SETTINGS, error_code
from checkback.kafka.reaching import IDLE_MS, REQUEST_MS, no_kafka

__all__ = ["FIXED", "connected", "make_client", "wrong_settings"]
T = TypeVar("T")
FIXED: Mapping[str, tuple[object, ...]] = {
    "enable.auto.commit": (False, "false"),
    "enable.auto.offset.store": (False, "false"),
    "auto.offset.reset": ("error",),
    "enable.partition.eof": (True, "true"),
    "isolation.level": ("read_committed",),
    "group.protocol": ("classic",),  # the newer one takes none of our settings for sessions and assignment
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list", "group.id", "partition.assignment.strategy"), ()),
}
"""What is promised of consumers: ``read_committed``, only what was handled is stored, their own servers."""

_CREATES_NO_TOPICS, _IDLE, _REQUEST = "allow.auto.create.topics", "connections.max.idle.ms", "socket.timeout.ms"
CONNECTED_TO_ALL = {"enable.sparse.connections": False}
"""A request that waits for a broker that is away asks for a connection at each change of its state, which is a change:
0.8 of a core, while one waits. A client that keeps connections to all brokers by itself is not asked."""


def make_client(kind: Any, settings: Mapping[str, Any], setting: str = "") -> Any:
    """Make a client: ``Consumer``, ``Producer`` or ``AdminClient``. It connects later, by itself.

    ``setting``: where the options came from, when it was a setting.

    Raises:
        WrongOptionError: there is no such option, its value cannot be used, or it is ours to set.
    """
    refuse_options(settings, {_CREATES_NO_TOPICS: (False, "false")}, "a client")
    ours = {_CREATES_NO_TOPICS: False, _IDLE: IDLE_MS, **(CONNECTED_TO_ALL if kind is AdminClient else {})}
    try:
        return kind({**ours, **settings, _REQUEST: _longest_request(settings)})
    except (KafkaException, ValueError, TypeError) as error:
        raise wrong_settings(error, setting) or error from error


def _longest_request(settings: Mapping[str, Any]) -> Any:
    """The longest wait for an answer (ms): librdkafka refuses a longer one than a transaction may take."""
    longest = settings.get(_REQUEST, REQUEST_MS)
    with suppress(ValueError, TypeError):  # what is no number, librdkafka refuses
        return min(int(longest), int(settings.get("transaction.timeout.ms", longest)))
    return longest


def connected(client: T, bootstrap_servers: str, seconds: float) -> T:
    """The client, once a Kafka has answered it.

    Raises:
        WrongOptionError: librdkafka notices only now that its settings cannot be used.
        KafkaUnreachableError: none has.
    """
    try:
        client.list_topics(timeout=seconds)  # type: ignore[attr-defined]  # each kind of client has it
    except KafkaException as error:
        raise wrong_settings(error) or no_kafka(bootstrap_servers, error) from error
    return client


def wrong_settings(error: Exception, setting: str = "") -> WrongOptionError | None:
    """The error for settings that librdkafka cannot use; None where it is about something else."""
    if isinstance(error, KafkaException) and error_code(error) not in WRONG_SETTINGS:
        return None
    return WrongOptionError(f"confluent-kafka cannot use {setting or 'these settings'}: {error}.")
