"""Which topics there are, and how many partitions the half topic has: asked for seldom."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from checkback.exceptions import ConfigurationError
from checkback.kafka.librdkafka.errors import NO_TOPIC
from checkback.kafka.librdkafka.hidden_topics import refusals
from gateway.refusals import GatewayError, RefusalReason

_KNOWN_SECONDS = 60.0
_MISSING_SECONDS = 1.0
_ASK_SECONDS = 5.0
_MOST = 10_000


class KafkaPlaces:
    """See :class:`~gateway.transactions.Places`.

    ``partitions`` gives how many the half topic has, and blocks; ``settings`` are librdkafka's, of a client that asks.

    Raises:
        ConfigurationError: Kafka does not have the half topic.
    """

    def __init__(
        self, partitions: Callable[[], int], settings: Mapping[str, Any], clock: Callable[[], float] = monotonic
    ) -> None:
        self._ask_partitions = partitions
        self._settings = settings
        self._clock = clock
        self._partitions = partitions()
        self._asked_at = clock()
        self._until: dict[str, tuple[float, bool]] = {}
        """By topic: until when it is known whether it is there."""
        self._asking: dict[str, asyncio.Task[bool]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def half_partitions(self) -> int:
        """How many there are; topics may be grown, so it is asked again once a minute."""
        if self._clock() - self._asked_at >= _KNOWN_SECONDS:
            self._asked_at = self._clock()
            self._looking = asyncio.ensure_future(self._look_again())  # nobody waits for it
        return self._partitions

    async def _look_again(self) -> None:
        with suppress(ConfigurationError):  # without an answer what is known stays
            self._partitions = await asyncio.to_thread(self._ask_partitions)

    async def look(self, topic: str) -> None:
        """Whether a topic is there. One of which Kafka says nothing counts as there.

        Raises:
            GatewayError: it is not.
        """
        until, there = self._until.get(topic, (0.0, True))
        if until <= self._clock():
            there = await self._found(topic)
        if not there:
            raise GatewayError(
                RefusalReason.NO_TOPIC, f"Kafka has no topic {topic}: run 'checkback topics create {topic}'."
            )

    async def _found(self, topic: str) -> bool:
        """Asked once, however many want to know."""
        if topic not in self._asking:
            self._asking[topic] = asyncio.ensure_future(self._ask(topic))
        return await asyncio.shield(self._asking[topic])

    async def _ask(self, topic: str) -> bool:
        try:
            found = await asyncio.to_thread(refusals, self._settings, [topic], _ASK_SECONDS)
        finally:
            del self._asking[topic]
        there = topic not in found or found[topic].code() not in NO_TOPIC
        if len(self._until) >= _MOST:  # somebody makes names up
            self._until.clear()
        self._until[topic] = self._clock() + (_KNOWN_SECONDS if there else _MISSING_SECONDS), there
        return there
