"""Finds half messages that have one id: what a client has sent again through another process."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.topic_reading import records_between
from checkback.wire import protocol
from checkback.wire.protocol import HalfPosition, Topics
from gateway.kafka.half_index import MOST_RECORDS, HalfIndex, offset_at
from gateway.twins import OpRead, Twins

_LOGGER = logging.getLogger(__name__)
_SECONDS = 0.8
"""With the client's own time it has to be less than the check service's patience, ``ask_timeout``."""
_CLOCKS_MS = 10_000
"""So far the clocks of two gateways may be apart."""


class TwinHalves:
    """Reads the half topic around a half message, and ops where there is another one of its id. One look at a time.

    ``connect`` makes a consumer of kafka-python's, when the first is wanted.
    """

    def __init__(self, topics: Topics, connect: Callable[[], Any]) -> None:
        self._topics = topics
        self._connect = connect
        self._consumer: Any = None
        self._indexes: dict[int, HalfIndex] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-twins")

    async def find(self, half: HalfPosition, transaction_id: str) -> Twins | None:
        """Those of its id. None: that cannot be said in time; what is read meanwhile is known the next time."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._look, half, transaction_id)
        except Exception as error:  # noqa: BLE001  (whatever it is, the check comes again)
            _LOGGER.warning("Whether the half message at %s was sent twice could not be looked up: %r", half, error)
            return None

    def close(self) -> None:
        """Close the consumer, if there is one."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._consumer is not None:
            self._consumer.close()

    def _look(self, half: HalfPosition, transaction_id: str) -> Twins:
        if self._consumer is None:
            self._consumer = self._connect()
        index = self._indexes.get(half.partition)
        if index is None:
            index = HalfIndex(self._consumer, TopicPartition(self._topics.half, half.partition))
            self._indexes[half.partition] = index
        found = index.find(half.offset, transaction_id)
        if len(found) < 2:
            return Twins((half,))
        places = [HalfPosition(half.partition, offset) for offset in found]
        return Twins.of(places, self._decisions(half.partition, min(found.values()), transaction_id))

    def _decisions(self, partition: int, since_ms: int, transaction_id: str) -> Iterator[OpRead]:
        place, wanted = TopicPartition(self._topics.op, partition), transaction_id.encode()
        stop = self._consumer.end_offsets([place])[place]
        start = offset_at(self._consumer, place, since_ms - _CLOCKS_MS, stop)
        if stop - start > MOST_RECORDS:
            _LOGGER.warning("Of %s only the last %d are looked at for what was decided.", place, MOST_RECORDS)
        for record in records_between(self._consumer, place, max(start, stop - MOST_RECORDS), stop):
            headers = dict(record.headers)
            if headers.get(protocol.ID) == wanted and (decision := _decision(headers)) is not None:
                yield decision


def _decision(headers: dict[str, bytes]) -> OpRead | None:
    """None: it is not an op."""
    half, action, source = (
        (headers.get(name) or b"").decode(errors="replace")
        for name in (protocol.HALF, protocol.ACTION, protocol.SOURCE)
    )
    try:
        return OpRead(HalfPosition.parse(half), action, source)
    except ProtocolError:
        return None
