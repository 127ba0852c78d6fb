"""Tells check services which groups can be asked through this gateway: a record and heartbeats for each of them."""

import asyncio
import logging
from collections.abc import Callable
from time import time_ns
from urllib.parse import quote

from checkback.kafka.transport import OutgoingRecord
from checkback.wire.checks import Announcement, announcement_key
from gateway.asking import Asking
from gateway.refusals import GatewayError
from gateway.transactions import Write

_LOGGER = logging.getLogger(__name__)
_HEARTBEAT_SECONDS = 10.0
_PARTITION = 0  # the only one

Sign = Callable[[str, OutgoingRecord], OutgoingRecord]
"""A record of a group as the access policy wants it."""


class GroupAnnouncements:
    """Announces a group while somebody can be asked for it, at ``url`` and the group's name behind it."""

    def __init__(self, topic: str, url: str, instance: str, asking: Asking, write: Write, sign: Sign) -> None:
        self._topic, self._url, self._instance = topic, url, instance
        self._asking = asking
        self._write = write
        self._sign = sign
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
        await asyncio.gather(*(self._say(group, None) for group in self._announced))
        self._announced.clear()

    async def _announce(self, groups: list[str]) -> None:
        gone = self._announced.difference(self._asking.groups())
        self._announced = (self._announced - gone) | set(groups)
        await asyncio.gather(
            *(self._say(group, None) for group in gone), *(self._say(group, self._value(group)) for group in groups)
        )

    async def _changed(self, deadline: float) -> bool:
        """Wait for a group that comes or goes; False: it is time for a heartbeat."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._asking.changed.wait()
        except TimeoutError:
            return False
        self._asking.changed.clear()
        return True

    def _value(self, group: str) -> bytes:
        url = f"{self._url}{quote(group, safe='')}"
        return Announcement(group, self._instance, url, time_ns() // 1_000_000, batch=100).to_record()[1]

    async def _say(self, group: str, value: bytes | None) -> None:
        record = OutgoingRecord(self._topic, _PARTITION, announcement_key(group, self._instance), value, [])
        try:
            await self._write(self._sign(group, record))
        except GatewayError as error:
            _LOGGER.warning("A heartbeat of group %s did not reach Kafka: %s", group, error)
