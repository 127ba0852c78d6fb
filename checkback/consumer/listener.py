"""What an application's listener gets, and what it says."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from numbers import Integral
from typing import NamedTuple

from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import ID

ReceivedHeaders = Sequence[tuple[str, bytes | None]]


class ConsumeResult(StrEnum):
    """What became of a message, or of all that were given at once."""

    SUCCESS = "success"
    """It is done with."""
    LATER = "later"
    """It is to be tried again. An exception says the same, and so does any other return value."""


def is_later(result: object) -> bool:
    """Whether the transaction must not commit; TypeError for what is not an answer, so that it is rolled back."""
    if result is None or isinstance(result, ConsumeResult):
        return result is ConsumeResult.LATER
    returned = f"{result!r:.80}"
    if inspect.iscoroutine(result):
        result.close()
        returned = "a coroutine (only an 'async def' itself, with an AsyncEngine, is awaited)"
    raise TypeError(f"The handler returned {returned}; it must return a ConsumeResult or None.")


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


_PARTITIONS_END, _OFFSETS_END = 2**31, 2**63
"""Kafka's numbers have 32 and 64 bits."""


def refuse_no_place(partition: int, offset: int) -> None:
    """Raises ConfigurationError unless Kafka may have such a partition, and such an offset."""
    for name, number, end in (("partition", partition, _PARTITIONS_END), ("offset", offset, _OFFSETS_END)):
        if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < end:
            raise ConfigurationError(f"{name} {number!r}: a whole number, at least 0 and below {end:,}.")


class ReceivedMessage(NamedTuple):
    """A message as a listener gets it.

    One that is tried again is as it was the first time: topic, partition, offset and time are those of its first place.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: ReceivedHeaders = ()
    timestamp_ms: int = 0
    """Kafka's or the producer's, as the topic is configured; ms since 1970."""
    tries: int = 0
    """How often it was tried before."""

    def header(self, name: str) -> bytes | None:
        """The first header of this name; None when there is none, too."""
        for one, content in self.headers:
            if one == name:
                return content
        return None

    @property
    def id(self) -> str:
        """What to tell it from others by, each time that it comes: its ``cb-id``; without one, its first place.

        A topic that was deleted and made again has the same places again: ``checkback.wire.message_id.message_id``
        gives what tells those apart, too.
        """
        found = self.header(ID)
        return f"{self.topic}:{self.partition}:{self.offset}" if found is None else found.decode(errors="replace")


class UnreadableMessage(ReceivedMessage):
    r"""One that no listener gets, since a header's name is not UTF-8. Anybody may write it, and Kafka takes it.

    Its headers are what its client can give: of kafka-python all, the name's other bytes spelled like ``\xff``; of
    confluent-kafka none.
    """

    __slots__ = ()


NOT_UTF_8 = "a header's name is not UTF-8"
"""Why."""

Listener = Callable[[ReceivedMessage], ConsumeResult]
"""What a push consumer calls with each message."""
BatchListener = Callable[[Sequence[ReceivedMessage]], ConsumeResult]
"""What it calls with several messages of one partition; the answer is that of all of them."""
AsyncListener = Callable[[ReceivedMessage], Awaitable[ConsumeResult]]
"""A :data:`Listener` as a coroutine."""
AsyncBatchListener = Callable[[Sequence[ReceivedMessage]], Awaitable[ConsumeResult]]
"""A :data:`BatchListener` as a coroutine."""
