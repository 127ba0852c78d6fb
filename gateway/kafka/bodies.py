"""Half messages that are too large to come with a check: read from the half topic, where they lie."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.partition_reader import PartitionReader
from checkback.kafka.kafka_python.reading_thread import ReadingThread
from checkback.wire.checks import CheckRequest
from checkback.wire.message_json import unpack
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import ID, MESSAGES, RESERVED_PREFIX
from gateway.kafka.reading_rights import explained

_LOGGER = logging.getLogger(__name__)
_SECONDS = 0.8
"""With the client's own time it has to be less than the check service's patience, ``ask_timeout``."""


class HalfBodies:
    """Reads one at a time. ``connect`` makes a consumer of kafka-python's, when the first is wanted."""

    def __init__(self, half_topic: str, connect: Callable[[], Any]) -> None:
        self._topic = half_topic
        self._thread = ReadingThread("gateway-bodies", connect)

    async def whole(self, check: CheckRequest) -> CheckRequest | None:
        """The check with the message that was left out of it; as it is where Kafka has another there, or none.

        None: it cannot be had in time.
        """
        if not check.left_out:
            return check
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._thread.run(partial(self._read, check))
        except Exception as error:  # noqa: BLE001  (whatever it is: the transaction's id says which it is)
            _LOGGER.warning(
                "The half message at %s could not be read for a check: %s", check.half, explained(error, self._topic)
            )
            return None

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading_thread.ReadingThread`."""
        self._thread.close()

    def _read(self, check: CheckRequest, consumer: Any) -> CheckRequest:
        partition, offset = check.half
        reader = PartitionReader(consumer, TopicPartition(self._topic, partition))
        record = reader.one(offset, monotonic() + _SECONDS)
        if record is None or own_headers(record.headers).get(ID) != check.transaction_id.encode():
            return check  # the topic was made again, and what lies there now is another's
        headers = [(name, content) for name, content in record.headers if not name.startswith(RESERVED_PREFIX)]
        if any(name == MESSAGES for name, _ in record.headers):
            return replace(check, messages=unpack(record.value), headers=headers, left_out=0)
        return replace(check, key=record.key, value=record.value, headers=headers, left_out=0)
