"""Finds half messages that have one id: what a client has sent again through another process."""

import logging
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.reading import JUST_NOW_SECONDS, PartitionReader, ReadingThread
from checkback.wire import protocol
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import ACTION, GROUP, ID, Action, HalfPosition, Source, Topics
from gateway.checking import NAMED, Twins
from gateway.kafka.bodies import in_time

_LOGGER = logging.getLogger(__name__)
APART_MS = 60_000
"""So long before and after a half message the others of its id are looked for. Clients repeat within 10 s."""
_EARLIER_MS = 30_000
"""So much more is read before it: the next one that is asked about may be an earlier one."""
MOST_RECORDS = 400_000
"""Of a stretch, at most half of it before a half message; 24 bytes are kept of each."""
_LAWFUL = re.compile(re.escape(NAMED.encode()) + rb"[0-9a-f]{32}")
_UNNAMED = -1
_FOR_EVER_MS = 1 << 62
_NONE = np.empty((0, 3), np.int64)
_READ_SECONDS = 0.5
_CLOCKS_MS = 10_000
"""So far the clocks of two gateways may be apart."""
_MOST_STRETCHES = 4
"""Of one partition: what is asked about together lies together, and there are those that are asked about again."""
_MOST_IDS = 10_000
_SOURCES = frozenset(Source)
_Name = tuple[int, str, str]
"""Partition, transaction id, group."""


class HalfIndex:
    """Of one stretch of a partition: ids as 63 bits, offsets and times (ms), a row each; it grows as it is asked."""

    def __init__(self, reader: PartitionReader, most: int = MOST_RECORDS) -> None:
        self._reader = reader
        self._most = most
        self._rows: NDArray[np.int64] = _NONE
        self._start = self._stop = -1
        """Offsets."""
        self._from_ms = 0

    def serves(self, offset: int) -> bool:
        """Whether the half message there lies in this stretch, or in what it may still come to."""
        return 0 <= self._start <= offset <= self._start + self._most // 2

    def find(self, offset: int, number: int, until: float) -> dict[int, int] | None:
        """Offsets and times (ms) of the half messages with this :func:`number_of` around an offset, its own among them.

        None of them where Kafka has another one there, or none. None at all: not all was read until then (s,
        monotonic); what was read is there the next time.
        """
        begin, end = self._reader.bounds(JUST_NOW_SECONDS)
        if self._stop > end:  # the topic was made again
            self._start, self._rows = -1, _NONE
        if self.serves(offset) and self._stop <= offset < end:
            self._read(offset + 1, until)
        own = self._of(number).get(offset)
        if own is None:
            record = self._reader.one(offset, until)
            if record is None or number_of(own_headers(record.headers)) != number:
                return {}
            own = int(record.timestamp)
            if offset < self._stop:  # another one was read there: the topic was made again
                self._start, self._rows = -1, _NONE
        if not self.serves(offset) or self._from_ms > own - APART_MS:
            self._from_ms = own - APART_MS - _EARLIER_MS
            first = min(offset, self._reader.offset_at(self._from_ms, end))
            self._start = self._stop = max(begin, first, offset - self._most // 2)
            self._rows = _NONE
        if not self._read_on(end, own + APART_MS, until):
            return None
        return {place: time for place, time in self._of(number).items() if abs(time - own) <= APART_MS}

    def _of(self, number: int) -> dict[int, int]:
        found = self._rows[self._rows[:, 0] == number]
        return {int(offset): int(time) for _, offset, time in found}

    def _read_on(self, end: int, to_ms: int, until: float) -> bool:
        """Whether all is read up to a time, or as much as is kept."""
        stop = min(end, self._start + self._most)
        if self._stop < stop and not self._is_past(to_ms):
            self._read(stop, until, to_ms)
        if self._stop == stop < end and not self._is_past(to_ms):
            _LOGGER.warning("Only %d half messages are looked through for one that was sent twice.", self._most)
        return self._stop >= stop or self._is_past(to_ms)

    def _read(self, stop: int, until: float, to_ms: int = _FOR_EVER_MS) -> None:
        for records, at in self._reader.read(self._stop, stop, until):
            rows = [(number_of(own_headers(one.headers)), one.offset, one.timestamp) for one in records]
            self._rows = np.concatenate((self._rows, np.array(rows, np.int64).reshape(-1, 3)))
            self._stop = at
            if self._is_past(to_ms):
                return

    def _is_past(self, to_ms: int) -> bool:
        """Whether the last ones are all of a later time: one alone may have a time that somebody has made up."""
        last = self._rows[-10:, 2]
        return len(last) == 10 and bool((last > to_ms).all())


def number_of(headers: Mapping[str, bytes]) -> int:
    """63 bits of id and group, of a half message that is to be decided and whose id was made of a name."""
    said = headers.get(ID, b"")
    if ACTION in headers or not _LAWFUL.fullmatch(said):
        return _UNNAMED
    return (int(said[len(NAMED) :][:16], 16) ^ (crc32(headers.get(GROUP, b"")) << 16)) >> 1


def is_lawful(transaction_id: str) -> bool:
    """Whether an id is one that gateways make of a name."""
    return _LAWFUL.fullmatch(transaction_id.encode()) is not None


@dataclass
class _Decided:
    """What is known of the ops on one id."""

    read_to: int
    """All before this offset."""
    commits: list[HalfPosition] = field(default_factory=list)
    """Half messages that ops commit, also others than are known: some of its id may be found later."""


class TwinHalves:
    """Reads the half topic around a half message, and ops where there is another one of its id. One look at a time.

    ``connect`` makes a consumer of kafka-python's, when the first is wanted.
    """

    def __init__(self, topics: Topics, connect: Callable[[], Any]) -> None:
        self._topics = topics
        self._consumer: Any = None
        self._stretches: defaultdict[int, list[HalfIndex]] = defaultdict(list)
        """By partition, the one that was used last at the end."""
        self._decided: OrderedDict[_Name, _Decided] = OrderedDict()
        self._thread = ReadingThread("gateway-twins", connect)

    async def find(self, half: HalfPosition, transaction_id: str, group: str) -> Twins | None:
        """Those of its id and group. None: that cannot be said in time; what was read is known the next time."""
        if not is_lawful(transaction_id):
            return Twins((half,))
        failed = f"Whether the half message at {half} was sent twice could not be looked up"
        look = partial(self._look, half, transaction_id, group)
        return await in_time(self._thread, look, failed, self._topics.half, self._topics.op)

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading.ReadingThread`."""
        self._thread.close()

    def _look(self, half: HalfPosition, transaction_id: str, group: str, consumer: Any) -> Twins | None:
        self._consumer = consumer
        until = monotonic() + _READ_SECONDS
        number = number_of({protocol.ID: transaction_id.encode(), protocol.GROUP: group.encode()})
        found = self._stretch(half).find(half.offset, number, until)
        if found is None:
            return None
        if len(found) < 2:
            return Twins((half,))
        places = [HalfPosition(half.partition, offset) for offset in found]
        return self._among(places, (half.partition, transaction_id, group), min(found.values()), until)

    def _reader(self, topic: str, partition: int) -> PartitionReader:
        return PartitionReader(self._consumer, TopicPartition(topic, partition))

    def _stretch(self, half: HalfPosition) -> HalfIndex:
        stretches = self._stretches[half.partition]
        found = next((one for one in stretches if one.serves(half.offset)), None)
        if found is None:
            found = HalfIndex(self._reader(self._topics.half, half.partition))
        else:
            stretches.remove(found)
        stretches.append(found)
        del stretches[:-_MOST_STRETCHES]
        return found

    def _among(self, places: list[HalfPosition], name: _Name, since_ms: int, until: float) -> Twins | None:
        """None: not all ops that there are now were looked at in time, and none that commits one of these was found."""
        partition, transaction_id, group = name
        reader = self._reader(self._topics.op, partition)
        _, end = reader.bounds()
        decided = self._decided.get(name)
        if decided is None or decided.read_to > end:  # the topic was made again
            decided = self._decided[name] = _Decided(reader.offset_at(since_ms - _CLOCKS_MS, end))
        self._decided.move_to_end(name)
        if len(self._decided) > _MOST_IDS:
            self._decided.popitem(last=False)
        twins = Twins.of(places, decided.commits)
        wanted = {protocol.ID: transaction_id.encode(), protocol.GROUP: group.encode()}.items()
        for records, at in reader.read(decided.read_to, end, until) if twins.committed is None else ():
            said = [headers for record in records if wanted <= (headers := own_headers(record.headers)).items()]
            decided.commits += [half for half in map(_committed, said) if half is not None]
            decided.read_to = at
            twins = Twins.of(places, decided.commits)
            if twins.committed is not None:
                break
        return twins if twins.committed is not None or decided.read_to >= end else None


def _committed(headers: Mapping[str, bytes]) -> HalfPosition | None:
    """The half message that an op commits; None: it is no such op."""
    half, action, source = (
        headers.get(name, b"").decode(errors="replace") for name in (protocol.HALF, protocol.ACTION, protocol.SOURCE)
    )
    if action != Action.COMMIT or source not in _SOURCES:
        return None
    try:
        return HalfPosition.parse(half)
    except ProtocolError:
        return None
