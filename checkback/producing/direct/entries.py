"""What a lane's process knows of the lane's half messages. No I/O."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from checkback.kafka.librdkafka.lanes import LaneRecord
from checkback.wire.protocol import ID, HalfPosition, Headers, Message

_RECORD_BYTES = 100
_NOWHERE = HalfPosition(-1, -1)


OrderKey = tuple[str, bytes | int]
"""A topic, and a key or a partition: what has it in common becomes readable in the order of its commits."""


class Stage(Enum):
    """How far a half message is."""

    WRITING = auto()
    """Kafka has not acknowledged it."""
    OPEN = auto()
    """Its local transaction is under way."""
    WAITING = auto()
    """Committed; it is to be taken into a Kafka transaction."""
    FLYING = auto()
    """In one."""
    DELIVERED = auto()
    """That has committed; the op is not acknowledged yet."""
    UNKNOWN = auto()
    """In one of which nobody can know whether it has committed."""
    LEFT = auto()
    """No lane delivers it any more: it is the job's, or was rolled back."""


@dataclass(eq=False, slots=True)
class LaneHalf:
    """A half message that names a lane."""

    transaction_id: str
    lane: str
    records: tuple[LaneRecord, ...]
    """Its messages, as the job would write them."""
    size: int
    """Bytes, about."""
    slot: int = 0
    """Which of the producer's lanes it is: each that is lost has another in its place."""
    keys: frozenset[OrderKey] = frozenset()
    stage: Stage = Stage.WRITING
    place: HalfPosition = _NOWHERE
    """Not known while it is being written."""
    remark: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)
    _by_lane: bool = False

    def delivered(self, seconds: float) -> bool:
        """Wait until its messages can be read, for at most ``seconds``; False: then, or the job delivers them."""
        self._ended.wait(seconds)
        return self._by_lane

    @property
    def left_to_job(self) -> bool:
        """See :class:`~checkback.producing.scope.Delivery`."""
        return self._ended.is_set() and not self._by_lane

    def end(self, *, by_lane: bool) -> None:
        """Tell those that wait."""
        self._by_lane = by_lane
        self._ended.set()


def order_keys(messages: Sequence[Message]) -> frozenset[OrderKey]:
    """Of all of these. A message with neither a key nor a partition of its own has no order."""
    keyed = {(one.topic, one.key) for one in messages if one.key is not None}
    placed = {(one.topic, one.partition) for one in messages if one.partition is not None}
    return frozenset(keyed | placed)


def lane_half(
    transaction_id: str, lane: str, messages: Sequence[Message], *, numbered: bool, slot: int = 0
) -> LaneHalf:
    """The entry of a half message of these, each with its own id where they are ``numbered``."""
    records = tuple(
        LaneRecord(one.topic, one.partition, one.key, one.value, _named(transaction_id, number, one.headers))
        for number, one in enumerate(messages, start=1 if numbered else 0)
    )
    return LaneHalf(transaction_id, lane, records, sum(map(_bytes_of, records)), slot, order_keys(messages))


def _named(transaction_id: str, number: int, headers: Headers) -> Headers:
    name = f"{transaction_id}#{number}" if number else transaction_id
    return [(ID, name.encode()), *headers]


def _bytes_of(record: LaneRecord) -> int:
    headers = sum(len(name) + len(content) for name, content in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
