"""What Kafka says of topics by name: of all topics it leaves out those that a user may not see."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from checkback.kafka.librdkafka import make_client


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
