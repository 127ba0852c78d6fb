"""Half messages that are too large to come with a check: read from the half topic, where they lie."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from typing import Any

from checkback.kafka.kafka_python.library import TopicPartition
from checkback.wire.checks import CheckRequest
from checkback.wire.message_json import unpack
from checkback.wire.protocol import ID, MESSAGES, RESERVED_PREFIX
from gateway.kafka.partition_reader import PartitionReader

_LOGGER = logging.getLogger(__name__)
_SECONDS = 0.8
"""With the client's own time it has to be less than the check service's patience, ``ask_timeout``."""


class HalfBodies:
    """Reads one at a time. ``connect`` makes a consumer of kafka-python's, when the first is wanted."""

    def __init__(self, half_topic: str, connect: Callable[[], Any]) -> None:
        self._topic = half_topic
        self._connect = connect
        self._consumer: Any = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-bodies")

    async def whole(self, check: CheckRequest) -> CheckRequest | None:
        """The check with the message that was left out of it; as it is where Kafka has another there, or none.

        None: it cannot be had in time.
        """
        if not check.left_out:
            return check
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, check)
        except Exception as error:  # noqa: BLE001  (whatever it is: the transaction's id says which it is)
            _LOGGER.warning("The half message at %s could not be read for a check: %r", check.half, error)
            return None

    def close(self) -> None:
        """Close the consumer, if there is one."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._consumer is not None:
            self._consumer.close()

    def _read(self, check: CheckRequest) -> CheckRequest:
        if self._consumer is None:
            self._consumer = self._connect()
        partition, offset = check.half
        reader = PartitionReader(self._consumer, TopicPartition(self._topic, partition))
        record = reader.one(offset, monotonic() + _SECONDS)
        if record is None or dict(record.headers).get(ID) != check.transaction_id.encode():
            return check  # the topic was made again, and what lies there now is another's
        headers = [(name, content) for name, content in record.headers if not name.startswith(RESERVED_PREFIX)]
        if any(name == MESSAGES for name, _ in record.headers):
            return replace(check, messages=unpack(record.value), headers=headers, left_out=0)
        return replace(check, key=record.key, value=record.value, headers=headers, left_out=0)
