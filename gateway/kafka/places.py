"""Which topics there are, and how many partitions the half topic has: asked for seldom."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Any

from checkback.exceptions import ConfigurationError
from checkback.kafka.librdkafka.errors import NO_TOPIC
from checkback.kafka.librdkafka.topics import refusals
from gateway.refusals import GatewayError, RefusalReason

_LOGGER = logging.getLogger(__name__)
_KNOWN_SECONDS = 60.0
_MISSING_SECONDS = 1.0
_ASK_SECONDS = 5.0
_PATIENCE_SECONDS = 1.5
"""Clients wait for less than three seconds in all."""
_AT_ONCE = 500
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
        self._wanted: dict[str, asyncio.Future[bool]] = {}
        """Nobody has asked Kafka about these yet."""
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        # of its own: names that somebody makes up are not to hold up what else the process has threads for
        self._thread = ThreadPoolExecutor(1, "gateway-places")

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
        """Asked once, however many want to know, and together with others; True while Kafka does not say."""
        loop = asyncio.get_running_loop()
        known = self._asked.get(topic) or self._wanted.setdefault(topic, loop.create_future())
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
        done, _ = await asyncio.wait((known,), timeout=_PATIENCE_SECONDS)
        return known.result() if done else True

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        while self._wanted:
            some = list(islice(self._wanted, _AT_ONCE))
            self._asked = {topic: self._wanted.pop(topic) for topic in some}
            try:
                found = await loop.run_in_executor(self._thread, refusals, self._settings, some, _ASK_SECONDS)
            except Exception as error:  # noqa: BLE001  (whatever it is, Kafka has said nothing)
                _LOGGER.warning("Kafka does not say whether it has %d topics: %r", len(some), error)
                found = {}
            for topic, known in self._asked.items():
                there = topic not in found or found[topic].code() not in NO_TOPIC
                self._keep(topic, there=there)
                known.set_result(there)
            self._asked = {}

    def _keep(self, topic: str, *, there: bool) -> None:
        if len(self._until) >= _MOST:  # somebody makes names up
            self._until.clear()
        self._until[topic] = self._clock() + (_KNOWN_SECONDS if there else _MISSING_SECONDS), there
