"""What a lane's process knows of half messages and their topics, and which of them a lane delivers. No I/O."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from checkback.kafka.librdkafka.lanes import LaneRecord
from checkback.wire.protocol import ID, HalfPosition, Headers, Message

_RECORD_BYTES = 100
_NOWHERE = HalfPosition(-1, -1)


OrderKey = tuple[str, bytes | int]
"""A topic, and a key or a partition: what has it in common becomes readable in the order of its commits."""
_BELIEVED_SECONDS = 60.0
_MOST = 10_000
"""Topics that are remembered."""

Ask = Callable[[Sequence[str]], dict[str, int]]
"""Gives the partitions of topics, 0 where a topic is missing or may not be written to."""


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


class LaneTopics:
    """Looks at each topic once; again after a minute where it was not fit, or when a later partition is asked for.

    ``clock`` is in seconds.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._partitions: dict[str, int] = {}
        self._asked: dict[str, float] = {}
        self._refused: set[str] = set()

    def learn(self, entries: Iterable[LaneHalf]) -> None:
        """Look at the topics of these, of all that are to be looked at together."""
        unfit = [one.topic for entry in entries for one in entry.records if self._unfit(one.topic, one.partition)]
        again = [topic for topic in dict.fromkeys(unfit) if self._may_ask(topic)]
        if not again:
            return
        if len(self._asked) > _MOST:
            self._partitions.clear()
            self._asked.clear()
        self._partitions.update(self._ask(again))
        self._asked.update(dict.fromkeys(again, self._clock()))

    def fit(self, entry: LaneHalf) -> bool:
        """Whether the lane may try it: its topics are there, this client may write to them, and none has refused.

        One of which Kafka says nothing is tried.
        """
        return not any(
            topic in self._refused or (topic in self._partitions and self._unfit(topic, partition))
            for topic, partition, *_ in entry.records
        )

    def refused(self, topics: Iterable[str]) -> None:
        """Kafka has refused a message of each of these: the lane writes to them no more.

        Both libraries have counted it, and Kafka has not: their next message there would be out of order for it.
        """
        self._refused.update(topics)

    def _unfit(self, topic: str, partition: int | None) -> bool:
        return self._partitions.get(topic, 0) <= (partition or 0)

    def _may_ask(self, topic: str) -> bool:
        asked = self._asked.get(topic)
        return topic not in self._refused and (asked is None or self._clock() >= asked + _BELIEVED_SECONDS)
