"""Finds half messages that have one id: what a client has sent again through another process."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.reading import PartitionReader, ReadingThread
from checkback.wire import protocol
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import Action, HalfPosition, Source, Topics
from gateway.checking import OpRead, Twins
from gateway.kafka.bodies import in_time
from gateway.kafka.half_index import HalfIndex, is_lawful, number_of

_READ_SECONDS = 0.5
_CLOCKS_MS = 10_000
"""So far the clocks of two gateways may be apart."""
_MOST_STRETCHES = 4
"""Of one partition: what is asked about together lies together, and there are those that are asked about again."""
_MOST_IDS = 10_000
_SOURCES = frozenset(Source)
_Name = tuple[int, str, str]
"""Partition, transaction id, group."""


@dataclass
class _Decided:
    """What is known of the ops on one id."""

    read_to: int
    """All before this offset."""
    commits: list[OpRead] = field(default_factory=list)
    """Of any half message: others of its id may be found later."""


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
            decided.commits += [op for op in map(_commit, said) if op is not None]
            decided.read_to = at
            twins = Twins.of(places, decided.commits)
            if twins.committed is not None:
                break
        return twins if twins.committed is not None or decided.read_to >= end else None


def _commit(headers: Mapping[str, bytes]) -> OpRead | None:
    """None: it is not an op that commits."""
    half, action, source = (
        headers.get(name, b"").decode(errors="replace") for name in (protocol.HALF, protocol.ACTION, protocol.SOURCE)
    )
    if action != Action.COMMIT or source not in _SOURCES:
        return None
    try:
        return OpRead(HalfPosition.parse(half), action, source)
    except ProtocolError:
        return None
