"""Half messages that are too large to come with a check: read from the half topic, where they lie."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from checkback.kafka.kafka_python.library import AuthorizationError, TopicPartition
from checkback.kafka.kafka_python.reading import PartitionReader, ReadingThread
from checkback.wire.checks import CheckRequest
from checkback.wire.message_json import unpack
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import ID, MESSAGES, RESERVED_PREFIX
from checkback.wire.rights import not_allowed, read

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_SECONDS = 0.8
"""With the client's own time it has to be less than the check service's patience, ``ask_timeout``."""


async def in_time(thread: ReadingThread, look: Callable[[Any], T], failed: str, *topics: str) -> T | None:
    """What ``look`` makes of the thread's consumer; None: that cannot be had in time, as the log then says.

    ``topics`` are read.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            return await thread.run(look)
    except Exception as error:  # noqa: BLE001  (whatever it is, the check comes again)
        rights = [read(topic, "checks") for topic in topics]
        refused = isinstance(error, AuthorizationError)
        _LOGGER.warning("%s: %s", failed, not_allowed("the gateway", error, rights) if refused else repr(error))
        return None


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
        failed = f"The half message at {check.half} could not be read for a check"
        return await in_time(self._thread, partial(self._read, check), failed, self._topic)

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading.ReadingThread`."""
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
