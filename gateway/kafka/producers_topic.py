"""Writes ``cb.producers``: where check endpoints are announced, and taken back."""

from collections.abc import Callable

from checkback.kafka.transport import OutgoingRecord
from checkback.wire.checks import MAX_ANNOUNCEMENT_BYTES, Announcement, announcement_key
from gateway.refusals import GatewayError, RefusalReason
from gateway.transactions import Write

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
