"""Whether the topics that messages are sent to are there: a message for one that is not lies and waits."""

import logging
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum

from checkback.exceptions import CheckbackError, ConfigurationError, MissingTopicError
from checkback.wire.protocol import Topics, refuse_own_topic

_LOGGER = logging.getLogger(__name__)


class MissingTopic(StrEnum):
    """What a producer does when Kafka does not have a message's topic."""

    WARN = "warn"
    """Send it, and say so in the log, once for each topic."""
    REFUSE = "refuse"
    """Raise :class:`~checkback.exceptions.MissingTopicError` before anything is written."""
    IGNORE = "ignore"
    """Do not look."""


class RealTopics:
    """Looks once at each topic that messages are sent to. All threads of a process may use one.

    ``missing`` gives those of some topics that Kafka says it does not have; it may raise CheckbackError. ``own`` are
    Checkback's, where no message goes.
    """

    def __init__(self, missing: Callable[[Sequence[str]], list[str]], action: MissingTopic | str, own: Topics) -> None:
        try:
            self._action = MissingTopic(action)
        except ValueError:
            names = ", ".join(f"{one.value!r}" for one in MissingTopic)
            raise ConfigurationError(f"missing_topic is one of {names}, not {action!r}.") from None
        self._missing = missing
        self._own = own
        self._seen: set[str] = set()
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None

    def look(self, topics: Sequence[str]) -> None:
        """Look at topics before a half message for them is written.

        Raises:
            ProtocolError: one is Checkback's or Kafka's own.
            MissingTopicError: Kafka does not have one, and messages for such topics are to be refused.
            KafkaUnreachableError: they are to be refused, and Kafka does not say.
        """
        new = [topic for topic in topics if topic not in self._seen]
        if not new:
            return
        for topic in new:
            refuse_own_topic(topic, self._own)
        if self._action is MissingTopic.IGNORE:
            self._seen.update(new)
            return
        if self._action is MissingTopic.REFUSE:
            self._refuse(new)
            self._seen.update(new)
            return
        with self._lock:
            self._waiting += [topic for topic in new if topic not in self._seen]
            self._seen.update(new)
            if self._looking is None:
                # not in the caller's time: the first message to a topic is as quick as the others
                self._looking = threading.Thread(target=self._warn, name="checkback-topics", daemon=True)
                self._looking.start()

    def wait(self, seconds: float) -> None:
        """Wait until what is to be warned of has been said, for a process that is about to end."""
        looking = self._looking
        if looking is not None:
            looking.join(seconds)

    def _refuse(self, topics: Sequence[str]) -> None:
        missing = self._missing(topics)
        if missing:
            raise MissingTopicError(
                f"Kafka has no topic {', '.join(missing)}, and missing_topic is 'refuse': nothing was written."
            )

    def _warn(self) -> None:
        while True:
            with self._lock:
                topics, self._waiting = self._waiting, []
                if not topics:
                    self._looking = None
                    return
            try:
                missing = self._missing(topics)
            except CheckbackError as error:
                _LOGGER.debug("Kafka does not say whether it has %s", topics, exc_info=error)
                continue
            for topic in missing:
                _LOGGER.warning(
                    "Kafka has no topic %s. If sinks.rules sends it to tables only, ignore this. Otherwise run "
                    "'checkback topics create %s', because the job holds its messages and parks them after 3 days.",
                    *(topic, topic),
                )
