"""What Kafka says of topics by name: ids and partitions; of all topics it leaves out those that a user may not see."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import NO_TOPIC, TIMED_OUT, error_code, result_of

_CALL_SECONDS = 5.0
T = TypeVar("T")


_NO_ID = 22 * "A"  # 16 bytes of zeros in base 64


def topic_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic that exists: see :func:`described`."""
    return {name: one.id for name, one in described(admin, topics).items()}


class TopicDescription(NamedTuple):
    """What Kafka says of a topic."""

    id: str
    """Kafka's own; another one when the topic is deleted and made again. Empty where it gives none (before 2.8)."""
    partitions: int


def of_controller(admin: AdminClient, ask: Callable[[], T]) -> T:
    """What ``ask`` gives, which asks Kafka's controller: of topics, and to make them.

    A client knows one from its last metadata, five minutes old perhaps, and waits for that one while it is away, with a
    core's whole time. So where nothing came in time it is told who that is now, and asked again.

    Raises:
        KafkaException: nothing came then, either.
    """
    try:
        return ask()
    except KafkaException as error:
        if error_code(error) not in TIMED_OUT:
            raise
        admin.list_topics(timeout=_CALL_SECONDS)
        return ask()


def described(admin: AdminClient, topics: Iterable[str]) -> dict[str, TopicDescription]:
    """Those of the topics that exist.

    Raises:
        KafkaException: Kafka did not say.
    """
    return of_controller(admin, partial(_described, admin, list(topics)))


def _described(admin: AdminClient, topics: list[str]) -> dict[str, TopicDescription]:
    asked = admin.describe_topics(TopicCollection(topics), request_timeout=_CALL_SECONDS)
    found = {}
    for name, answer in asked.items():
        try:
            topic = result_of(answer)
            given = str(topic.topic_id)
            found[name] = TopicDescription("" if given == _NO_ID else given, len(topic.partitions))
        except KafkaException as error:
            if error_code(error) not in NO_TOPIC:
                raise
    return found


def refusals(settings: Mapping[str, Any], topics: Iterable[str], seconds: float) -> dict[str, KafkaError]:
    """The error of each of these topics that Kafka does not describe; asking for a topic so creates none."""
    names = list(topics)
    if not names:
        return {}
    admin = make_client(AdminClient, settings)  # kept: its answers end with it
    answers = admin.describe_topics(TopicCollection(names), request_timeout=seconds)
    errors = {name: answer.exception() for name, answer in answers.items()}
    return {name: error.args[0] for name, error in errors.items() if isinstance(error, KafkaException)}


def hidden(settings: Mapping[str, Any], topics: Iterable[str], seconds: float) -> dict[str, KafkaError]:
    """Those of them that this user may not see, with Kafka's words."""
    found = refusals(settings, topics, seconds)
    return {name: error for name, error in found.items() if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED}
