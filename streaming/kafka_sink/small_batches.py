"""Records for topics whose ``max.message.bytes`` is smaller than the sink's batches."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import monotonic

from streaming.batch.record import EMPTY_BATCH_BYTES, Record, batch_bytes
from streaming.kafka_sink.topic_limits import chosen_partition

_HELD_BYTES = 8 << 20
_HELD_WAVES = 32
"""So many waves are written at once, so that it is soon known how long they take."""
_DELTAS = 8
"""Bytes by which a record's time and offset may be longer when it is not the first of its batch."""


class SizeLimitedTopics:
    """Holds records back and writes them in waves, so that no batch is larger than its topic takes.

    librdkafka has one ``batch.size`` for all topics, does not split a batch that was refused, and a smaller one makes
    everything slower (measured, 256 B: 1.7 times with 64 KiB, 10 times with 4 KiB). So the others keep theirs; of
    these a wave has, for each partition, no more than one batch may have, and is flushed before the next. Order
    within a partition is kept.

    A wave takes some milliseconds, however little is in it. A topic that has taken ``seconds`` of them is *slow*: the
    transaction must end in time.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        partitions: Callable[[str], int],
        seconds: float = 10.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._limits = limits
        self._partitions = partitions
        self._seconds = seconds
        self._clock = clock
        self._held: dict[tuple[str, int], deque[tuple[int, Record]]] = {}
        self._held_bytes = 0
        self._waves: dict[tuple[str, int], tuple[int, int]] = {}
        """Of what is held: how many waves that makes, and the bytes in the last one."""
        self._spent: Counter[str] = Counter()
        """Microseconds."""
        self._most_waves = 0
        self._written: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether it is time to :meth:`write`."""
        return self._held_bytes >= _HELD_BYTES or self._most_waves >= _HELD_WAVES

    def pace_ms(self, topic: str) -> float:
        """How long a message of a slow topic takes; 0: it is not slow."""
        spent = self._spent[topic] / 1e6
        return spent * 1000 / self._written[topic] if spent >= self._seconds else 0.0

    def hold(self, record: Record) -> bool:
        """Whether this record is for one of these topics: then it is held."""
        if record.topic not in self._limits:
            return False
        size = batch_bytes(record) - EMPTY_BATCH_BYTES + _DELTAS
        place = (record.topic, chosen_partition(record, self._partitions(record.topic)))
        self._held.setdefault(place, deque()).append((size, record._replace(partition=place[1])))
        self._held_bytes += size
        self._count_waves(place, size)
        return True

    def write(self, send: Callable[[Record], None], flush: Callable[[], None]) -> None:
        """Write all that are held."""
        while self._held:
            began = self._clock()
            topics = {topic for topic, _ in self._held}
            for (topic, partition), waiting in list(self._held.items()):
                room = self._limits[topic] - EMPTY_BATCH_BYTES
                alone = True
                while waiting and (alone or waiting[0][0] <= room):
                    size, record = waiting.popleft()
                    room -= size
                    alone = False
                    send(record)
                    self._written[topic] += 1
                if not waiting:
                    del self._held[topic, partition]
            flush()
            took = round((self._clock() - began) * 1e6)
            for topic in topics:  # those of a wave are waited for together
                self._spent[topic] += took
        self._held_bytes = self._most_waves = 0
        self._waves.clear()

    def _count_waves(self, place: tuple[str, int], size: int) -> None:
        waves, used = self._waves.get(place, (0, 0))
        fits = waves > 0 and used + size <= self._limits[place[0]] - EMPTY_BATCH_BYTES
        self._waves[place] = waves, used = (waves, used + size) if fits else (waves + 1, size)
        self._most_waves = max(self._most_waves, waves)
