"""How commands read topics. One that waits says on standard error, once, that Kafka does not answer it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from time import monotonic
from typing import Any

import typer

from checkback.kafka.kafka_python.library import KafkaConsumer, KafkaError
from checkback.kafka.topic_reading import reading_consumer
from conf import KafkaSettings

_LOOK_SECONDS = 3.0
_ANSWER_MS = 2_000


def reading(kafka: KafkaSettings, isolation: str = "read_committed") -> AbstractContextManager[KafkaConsumer]:
    """A consumer without a group, by the settings, that is closed at the end."""
    return closing(reading_consumer(kafka.bootstrap_servers, isolation, kafka.python_client))


class AwayNotice:
    """Looks, when nothing comes, whether Kafka is there at all: kafka-python's consumer waits without a word."""

    def __init__(
        self,
        consumer: KafkaConsumer,
        say: Callable[[str], Any] = lambda text: typer.echo(text, err=True),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._consumer = consumer
        self._say = say
        self._clock = clock
        self._looked_at = clock()
        self._away = False

    def look(self) -> None:
        """Ask Kafka where the partitions end, if that was some seconds ago. Raises nothing when it does not answer."""
        if self._clock() - self._looked_at < _LOOK_SECONDS:
            return
        try:
            self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=_ANSWER_MS)
        except (KafkaError, OSError) as error:
            if not self._away:
                self._say(f"Kafka does not answer ({type(error).__name__}): waiting for it.")
            self._away = True
        else:
            if self._away:
                self._say("Kafka answers again.")
            self._away = False
        self._looked_at = self._clock()
