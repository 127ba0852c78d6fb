"""Of kafka-python: makes its clients, and refuses options that they do not have or that are ours to set."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConfigurationError, KafkaError

from checkback.exceptions import WrongOptionError
from checkback.kafka.client_options import no_such_option, refuse_options
from checkback.kafka.kafka_python.repairs import ask_for_another_producer_id, create_no_topics, refuse_unknown_version
from checkback.kafka.reaching import CONNECT_MS, IDLE_MS, RECONNECT_MS, no_kafka

__all__ = ["SHARED", "make_client"]
_KINDS = (KafkaConsumer, KafkaProducer, KafkaAdminClient)
_BYTES = dict.fromkeys(("key_serializer", "value_serializer", "key_deserializer", "value_deserializer"), (None,))
_NAMES = dict.fromkeys(("bootstrap_servers", "group_id", "transactional_id"), ())
_CREATES_NO_TOPICS: Mapping[str, tuple[object, ...]] = {"allow_auto_create_topics": (False,)}
SHARED: Mapping[str, tuple[object, ...]] = {
    **_BYTES,
    **_NAMES,
    "acks": ("all", -1),
    "auto_offset_reset": (),
    "enable_auto_commit": (False,),
    "isolation_level": ("read_committed",),
}
"""What nobody may set of clients that have one set of options between them (``kafka.client_options``): what all of
these read and write rests on it."""
_OF_ALL = {
    "bootstrap_timeout_ms": CONNECT_MS,
    "reconnect_backoff_max_ms": RECONNECT_MS,
    "connections_max_idle_ms": IDLE_MS,
}
"""Settings of every client that has them."""
_OTHER_TYPES = frozenset({"acks", "api_version"})
"""Options whose default is a number or a text, and that take something else as well."""


def make_client(
    kind: Any,
    ours: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    fixed: Mapping[str, tuple[object, ...]] = _NAMES,
    *,
    whose: str = "a client",
    setting: str = "",
) -> Any:
    """Make a client.

    Args:
        kind: ``KafkaConsumer``, ``KafkaProducer`` or ``KafkaAdminClient``.
        ours: its settings, ``bootstrap_servers`` among them.
        options: the user's, which override ours. With ``fixed=SHARED`` they are those of several clients: one that only
            another kind has is left out.
        fixed: names that the user must not set, each with the values that do no harm.
        whose: who has the options, for messages: ``a producer``.
        setting: where the address came from, when it was a setting.

    Raises:
        WrongOptionError: there is no such option, its value has the wrong type, or it is ours to set.
        KafkaUnreachableError: no Kafka answers.
        InstallationError: kafka-python is of a version that Checkback was not tried with.
    """
    given = dict(options or {})
    refuse_options(given, {**fixed, **_CREATES_NO_TOPICS}, whose)
    for name in [name for name in given if name not in kind.DEFAULT_CONFIG]:
        if fixed is not SHARED or not any(name in other.DEFAULT_CONFIG for other in _KINDS):
            raise no_such_option("kafka-python", name, kind.DEFAULT_CONFIG)
        del given[name]
    for name, value in given.items():
        _refuse_wrong_type(name, value, kind.DEFAULT_CONFIG[name])
    of_all = {name: value for name, value in _OF_ALL.items() if name in kind.DEFAULT_CONFIG}
    try:
        client = kind(**{**of_all, **ours, **given})
    except (KafkaConfigurationError, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise WrongOptionError(f"kafka-python cannot use these settings: {error}.") from error
    except KafkaError as error:
        raise no_kafka(str(ours["bootstrap_servers"]), error, setting) from error
    refuse_unknown_version(client)
    create_no_topics(client)
    if isinstance(client, KafkaProducer):
        ask_for_another_producer_id(client)
    return client


def _refuse_wrong_type(name: str, value: object, default: object) -> None:
    """As far as the default tells: kafka-python itself fails somewhere with whatever comes of it."""
    if value is None or name in _OTHER_TYPES:
        return
    for kind, named in (((bool,), "true or false"), ((int, float), "a number"), ((str,), "text")):
        if isinstance(default, kind):
            if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kind):
                said = f"{name} must be {named}, not {value!r}"
                raise WrongOptionError(f"kafka-python cannot use these settings: {said}.")
            return
