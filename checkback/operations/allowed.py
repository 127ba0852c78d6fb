"""What Kafka says that its user may do with topics and groups."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkback.kafka.kafka_python.library import (
    GroupAuthorizationFailedError,
    KafkaAdminClient,
    KafkaError,
    TopicAuthorizationFailedError,
)
from checkback.wire.rights import ResourceKind

_NOTHING = frozenset[str]()


def allowed_of(
    admin: KafkaAdminClient, topics: Iterable[str], groups: Iterable[str]
) -> dict[tuple[ResourceKind, str], frozenset[str] | None]:
    """Operations by resource, by Kafka's names (``DESCRIBE_CONFIGS``); None: it does not say, or has no such topic.

    Raises:
        KafkaError: Kafka does not answer.
    """
    found = {(ResourceKind.TOPIC, topic["name"]): _of_topic(topic) for topic in admin.describe_topics(list(topics))}
    return found | {(ResourceKind.GROUP, group): _of_group(admin, group) for group in groups}


def _of_topic(topic: Mapping[str, Any]) -> frozenset[str] | None:
    if topic["error_code"] == TopicAuthorizationFailedError.errno:
        return _NOTHING
    return operations_in(topic.get("topic_authorized_operations", topic.get("authorized_operations")))


def _of_group(admin: KafkaAdminClient, group: str) -> frozenset[str] | None:
    try:
        (described,) = admin.describe_groups([group]).values()  # one alone: a hidden one fails all
    except GroupAuthorizationFailedError:
        return _NOTHING
    except KafkaError as error:
        if not error.retriable:
            raise
        return None  # a cluster's first group waits until Kafka has made the topic of all groups' offsets
    if GroupAuthorizationFailedError.__name__ in str(described["error"]):
        return _NOTHING
    return operations_in(described.get("authorized_operations"))


def operations_in(said: object) -> frozenset[str] | None:
    """As kafka-python gives them; None where the broker has said nothing."""
    return frozenset(said) if isinstance(said, list | set | tuple) and said else None
