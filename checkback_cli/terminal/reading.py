"""How commands read topics."""

from contextlib import AbstractContextManager, closing

from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.topic_reading import reading_consumer
from conf import KafkaSettings


def reading(kafka: KafkaSettings, isolation: str = "read_committed") -> AbstractContextManager[KafkaConsumer]:
    """A consumer without a group, by the settings, that is closed at the end."""
    return closing(reading_consumer(kafka.bootstrap_servers, isolation, kafka.python_client))
