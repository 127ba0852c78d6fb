"""Records for topics whose ``max.message.bytes`` is smaller than the sink's batches."""

from collections import deque
from collections.abc import Callable, Mapping

from streaming.topic_rules import EMPTY_BATCH_BYTES, Record, batch_bytes, chosen_partition

_HELD_BYTES = 8 << 20
_DELTAS = 8
"""Bytes by which a record's time and offset may be longer when it is not the first of its batch."""


class NarrowTopics:
    """Holds records back and writes them in waves, so that no batch is larger than its topic takes.

    librdkafka has one ``batch.size`` for all topics, does not split a batch that was refused, and a smaller one makes
    everything slower (measured, 256 B: 1.7 times with 64 KiB, 10 times with 4 KiB). So the others keep theirs; of
    these a wave has, for each partition, no more than one batch may have, and is flushed before the next. Order
    within a partition is kept.
    """

    def __init__(self, limits: Mapping[str, int], partitions: Callable[[str], int]) -> None:
        self._limits = limits
        self._partitions = partitions
        self._held: dict[tuple[str, int], deque[tuple[int, Record]]] = {}
        self._held_bytes = 0

    @property
    def full(self) -> bool:
        """Whether it is time to :meth:`write`."""
        return self._held_bytes >= _HELD_BYTES

    def takes(self, record: Record) -> bool:
        """Whether this record is for one of these topics: then it is held."""
        if record.topic not in self._limits:
            return False
        size = batch_bytes(record) - EMPTY_BATCH_BYTES + _DELTAS
        place = (record.topic, chosen_partition(record, self._partitions(record.topic)))
        self._held.setdefault(place, deque()).append((size, record._replace(partition=place[1])))
        self._held_bytes += size
        return True

    def write(self, send: Callable[[Record], None], flush: Callable[[], None]) -> None:
        """Write all that are held."""
        while self._held:
            for (topic, partition), waiting in list(self._held.items()):
                room = self._limits[topic] - EMPTY_BATCH_BYTES
                alone = True
                while waiting and (alone or waiting[0][0] <= room):
                    size, record = waiting.popleft()
                    room -= size
                    alone = False
                    send(record)
                if not waiting:
                    del self._held[topic, partition]
            flush()
        self._held_bytes = 0
