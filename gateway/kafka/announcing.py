"""Writes ``cb.producers``: which groups can be asked through this gateway, and the endpoints of its HTTP clients."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from time import time_ns
from urllib.parse import quote

from checkback.kafka.transport import OutgoingRecord
from checkback.wire.checks import MAX_ANNOUNCEMENT_BYTES, Announcement, announcement_key
from gateway.asking import Asking
from gateway.refusals import GatewayError, RefusalReason
from gateway.transactions import Write

_LOGGER = logging.getLogger(__name__)
_TAKE_BACK_SECONDS = 3.0
_HEARTBEAT_SECONDS = 10.0
_AT_ONCE = 100
_PARTITION = 0  # the only one

Sign = Callable[[str, OutgoingRecord], OutgoingRecord]
"""A record of a group as the access policy wants it."""


class ProducersTopic:
    """``topic`` is its name. What returns is in Kafka."""

    def __init__(self, topic: str, write: Write, sign: Sign) -> None:
        self._topic = topic
        self._write = write
        self._sign = sign

    async def announce(self, said: Announcement) -> None:
        """Write an announcement, for the first time or as a heartbeat.

        Raises:
            GatewayError: it is too long, the group's key is not here, or Kafka has not taken it.
        """
        key, value = said.to_record()
        if len(key) + len(value) > MAX_ANNOUNCEMENT_BYTES:
            raise GatewayError(
                RefusalReason.TOO_LARGE,
                f"An announcement has {MAX_ANNOUNCEMENT_BYTES:,} bytes at most: name fewer topics.",
            )
        await self._say(said.group, key, value)

    async def take_back(self, group: str, instance: str) -> None:
        """Say that an endpoint is not there any more. Raises as :meth:`announce`."""
        await self._say(group, announcement_key(group, instance), None)

    async def _say(self, group: str, key: bytes, value: bytes | None) -> None:
        await self._write(self._sign(group, OutgoingRecord(self._topic, _PARTITION, key, value, [])))


class GroupAnnouncements:
    """Announces a group while somebody can be asked for it, at ``url`` and the group's name behind it."""

    def __init__(self, topic: ProducersTopic, url: str, instance: str, asking: Asking) -> None:
        self._topic, self._url, self._instance = topic, url, instance
        self._asking = asking
        self._announced: set[str] = set()

    async def run(self, each_time: Callable[[], None] = lambda: None) -> None:
        """Announce until cancelled. ``each_time`` is called before each heartbeat."""
        while True:
            each_time()
            await self._announce(self._asking.groups())
            deadline = asyncio.get_running_loop().time() + _HEARTBEAT_SECONDS
            while await self._changed(deadline):
                now = set(self._asking.groups())
                await self._announce(sorted(now - self._announced))

    async def take_back(self) -> None:
        """Say of all groups that nobody is here any more."""
        with suppress(TimeoutError):  # while Kafka is away: heartbeats lapse after a minute
            async with asyncio.timeout(_TAKE_BACK_SECONDS):
                await asyncio.gather(*(self._take_back(group) for group in self._announced))
        self._announced.clear()

    async def _announce(self, groups: list[str]) -> None:
        gone = self._announced.difference(self._asking.groups())
        self._announced = (self._announced - gone) | set(groups)
        for some in _shares(sorted(gone)):
            await asyncio.gather(*map(self._take_back, some))
        for some in _shares(groups):
            await asyncio.gather(*map(self._say, some))

    async def _changed(self, deadline: float) -> bool:
        """Wait for a group that comes or goes; False: it is time for a heartbeat."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._asking.changed.wait()
        except TimeoutError:
            return False
        self._asking.changed.clear()
        return True

    async def _say(self, group: str) -> None:
        url = f"{self._url}{quote(group, safe='')}"
        said = Announcement(group, self._instance, url, time_ns() // 1_000_000, batch=100)
        await _logged(group, self._topic.announce(said))

    async def _take_back(self, group: str) -> None:
        await _logged(group, self._topic.take_back(group, self._instance))


async def _logged(group: str, written: Awaitable[None]) -> None:
    try:
        await written
    except GatewayError as error:
        _LOGGER.warning("A heartbeat of group %s did not reach Kafka: %s", group, error)


def _shares(groups: list[str]) -> Iterator[list[str]]:
    """So many at once that the loop has time for others."""
    return (groups[first : first + _AT_ONCE] for first in range(0, len(groups), _AT_ONCE))
