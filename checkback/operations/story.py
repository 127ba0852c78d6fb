"""The whole story of a transaction, from Kafka: half message, ops, checks, answers, decision, delivery."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, NamedTuple

from checkback.exceptions import NotAllowedError, ProtocolError
from checkback.kafka.kafka_python.library import KafkaConsumer, TopicPartition, murmur2
from checkback.kafka.record_ranges import USUAL, RangeReader, ReadLimits, Tell, tell_nobody
from checkback.operations.in_doubt import InDoubt, place_of, row_of
from checkback.operations.story_events import EventKind, StoryEvent, delivered, event_of, half_in, headers_of, held_in
from checkback.operations.story_standing import StoryStanding, decision, standing
from checkback.wire import protocol
from checkback.wire.message_json import unpack
from checkback.wire.protocol import Action, HalfAction, HalfPosition, Message, Topics

_BEFORE_MS = 60_000
"""So much before a moment is looked at, too: clocks of brokers differ."""
_MOST_MOMENTS = 20
_DELIVERS = {Action.COMMIT, Action.REDELIVER}


class Story(NamedTuple):
    """What is known of a transaction."""

    half: HalfPosition
    transaction_id: str
    """As its producer says; another group's transaction may have the same."""
    group: str
    topic: str
    """The real topic."""
    standing: StoryStanding
    events: tuple[StoryEvent, ...]
    """By time."""
    row: InDoubt | None = None
    """What ``cb.status`` has of it; None when it is not in doubt."""
    not_looked_at: tuple[str, ...] = ()
    """Where there may be more of it: sentences without their full stop."""

    @property
    def lane(self) -> str:
        """The lane that its half message names: its producer may deliver it itself. Empty: none."""
        return next((event.lane for event in self.events if event.lane), "")


def story_of(
    consumer: KafkaConsumer,
    topics: Topics,
    half: HalfPosition,
    limits: ReadLimits = USUAL,
    tell: Tell = tell_nobody,
    clock: Callable[[], float] = monotonic,
    row: InDoubt | None = None,
) -> Story | None:
    """All that Kafka has of the transaction whose half message lies there; None when it has nothing.

    Reads what follows the half message in the partitions where its records lie, within ``limits``; of a half message
    that is gone, what other topics have. One that the job wrote again, since its topic did not take it, belongs to
    the first one's story. ``row`` is what ``cb.status`` has of it now, for those who have read that; else it is looked
    for there.

    ``consumer`` has no group, and is assigned what is read (:func:`checkback.kafka.topic_reading.reading_consumer`).

    Raises:
        KafkaError: Kafka does not answer.
    """
    return _Reading(consumer, topics, RangeReader(consumer, limits, tell, clock)).story(half, row)


class Sent(NamedTuple):
    """A message as it arrives, should it be delivered."""

    transaction_id: str
    message: Message


def sent_in(record: Any) -> list[Sent]:
    """The messages that a half message holds."""
    headers = headers_of(record)
    transaction_id = (headers.get(protocol.ID) or b"").decode(errors="replace")
    if protocol.MESSAGES in headers:
        try:
            messages = unpack(record.value)
        except ProtocolError:
            return []
        return [Sent(f"{transaction_id}#{number}", message) for number, message in enumerate(messages, start=1)]
    topic, partition = (
        (headers.get(name) or b"").decode(errors="replace") for name in (protocol.TOPIC, protocol.PARTITION)
    )
    number = int(partition) if partition.isdigit() and len(partition) <= protocol.MAX_COUNT_DIGITS else None
    return [Sent(transaction_id, Message(topic, record.value, record.key, (), number))]


def partitions_of(message: Message, count: int) -> list[int]:
    """On which of so many partitions of its topic a message lands: all, where Kafka chooses one."""
    if message.partition is not None:
        return [message.partition] if message.partition < count else []
    return list(range(count)) if message.key is None else [keyed_partition(message.key, count)]


def keyed_partition(key: bytes, count: int) -> int:
    """Where Kafka's default partitioner puts a record with this key."""
    return int((murmur2(key) & 0x7FFFFFFF) % count)


class _Reading:
    """Reads one story, topic by topic."""

    def __init__(self, consumer: KafkaConsumer, topics: Topics, reader: RangeReader) -> None:
        self._consumer = consumer
        self._topics = topics
        self._reader = reader
        self._notes: list[str] = []

    def story(self, half: HalfPosition, row: InDoubt | None) -> Story | None:
        record = self._record_at(half)
        held = held_in(record) if record is not None else None
        if held is not None:
            half, record = held.origin, self._record_at(held.origin)
        events = [] if record is None else [one for one in [event_of(record, self._topics)] if one is not None]
        since_ms = max(0, record.timestamp - _BEFORE_MS) if record is not None else 0
        events += self._of_one_partition(self._topics.parked, half, since_ms)
        events += self._of_one_partition(self._topics.rejected, half, since_ms)
        row = row or self._row(half, since_ms)
        known = next(((one.transaction_id, one.group, one.topic) for one in events if one.transaction_id), None)
        if known is None and row is not None:
            known = row.transaction_id, row.group, row.topic
        if known is None:
            return None
        events += self._checks(known[0], half, since_ms, row)
        events += self._ops(known[0], half, events, since_ms, row)
        if record is not None:
            events += self._written_again(half, events)
            events += self._deliveries(record, events)
        events = _told(events, half)
        unread = [f"{one} ({one.stop - one.start} records)" for one in self._reader.unread]
        return Story(half, *known, standing(events, row), tuple(events), row, tuple(self._notes + unread))

    def _record_at(self, half: HalfPosition) -> Any:
        place = TopicPartition(self._topics.half, half.partition)
        if half.partition not in self._reader.partitions(self._topics.half):
            return None
        first, end = self._consumer.beginning_offsets([place])[place], self._consumer.end_offsets([place])[place]
        if not first <= half.offset < end:
            return None
        found = self._reader.read_stretches({place: [(half.offset, half.offset + 1)]}, lambda _: True)
        return found[0] if found else None

    def _of_one_partition(self, topic: str, half: HalfPosition, since_ms: int) -> list[StoryEvent]:
        """Of ``cb.parked`` and ``cb.rejected``."""
        first = f"{self._topics.half}:{half}".encode()

        def ours(record: Any) -> bool:
            headers = headers_of(record)
            return half_in(headers) == half or headers.get(protocol.FROM) == first

        found = self._reader.read(topic, self._reader.partitions(topic), [since_ms], ours)
        return self._events(found)

    def _row(self, half: HalfPosition, since_ms: int) -> InDoubt | None:
        topic = self._topics.status
        partitions = self._reader.partitions(topic)
        rows = self._reader.read(topic, partitions, [since_ms], lambda record: place_of(record.key) == half)
        return row_of(half, rows[-1].value, rows[-1].timestamp) if rows else None

    def _checks(self, transaction_id: str, half: HalfPosition, since_ms: int, row: InDoubt | None) -> list[StoryEvent]:
        topic = self._topics.check
        count = len(self._reader.partitions(topic))
        if not count:
            return []
        moments = [since_ms, *([row.asked_ms - _BEFORE_MS] if row else [])]
        place = keyed_partition(transaction_id.encode(), count)
        found = self._reader.read(topic, [place], moments, lambda record: half_in(headers_of(record)) == half)
        return self._events(found)

    def _ops(
        self, transaction_id: str, half: HalfPosition, events: Iterable[StoryEvent], since_ms: int, row: InDoubt | None
    ) -> list[StoryEvent]:
        topic = self._topics.op
        if half.partition not in self._reader.partitions(topic):
            return []
        kinds = {EventKind.CHECK, EventKind.PARKED, EventKind.NOT_PARKED}
        moments = [since_ms, *(event.time_ms - _BEFORE_MS for event in events if event.kind in kinds)]
        moments += [row.asked_ms - _BEFORE_MS] if row else []
        start = f"{transaction_id}#".encode()

        def ours(record: Any) -> bool:
            headers = headers_of(record)
            name = headers.get(protocol.ID) or b""
            return half_in(headers) == half or name == transaction_id.encode() or name.startswith(start)

        return self._events(self._reader.read(topic, [half.partition], _spread(moments), ours))

    def _written_again(self, half: HalfPosition, events: Iterable[StoryEvent]) -> list[StoryEvent]:
        """Half messages that the job wrote since a topic did not take what was committed: on the same partition."""
        moments = [*_commits(events), *(event.time_ms for event in events if event.kind is EventKind.PARKED)]
        if not moments:
            return []

        def ours(record: Any) -> bool:
            held = held_in(record)
            return held is not None and held.origin == half

        moments = [moment - _BEFORE_MS for moment in moments]
        return self._events(self._reader.read(self._topics.half, [half.partition], _spread(moments), ours))

    def _deliveries(self, record: Any, events: Iterable[StoryEvent]) -> list[StoryEvent]:
        commits = _commits(events)
        if not commits and decision(list(events)) is not None:
            self._notes.append("the real topic: the transaction was rolled back")
            return []
        # without any decision among the events on_exhausted may have committed it
        moments = commits or [record.timestamp]
        if protocol.LANE in headers_of(record):  # its producer may have delivered it long before anybody said so
            moments = [record.timestamp, *moments]
        moments = [moment - _BEFORE_MS for moment in moments]
        found: list[StoryEvent] = []
        for topic, sent in _by_topic(sent_in(record)):
            found += self._arrived(topic, sent, moments, decided=bool(commits))
        return found

    def _arrived(self, topic: str, sent: list[Sent], moments: list[int], *, decided: bool) -> list[StoryEvent]:
        try:
            partitions = self._reader.partitions(topic)
        except NotAllowedError:  # who decides need not see what is delivered
            self._notes.append(f"{topic}: Kafka does not let this user read it")
            return []
        if not partitions:
            self._notes.append(f"{topic}: there is no such topic")
            return []
        wanted = {one.transaction_id.encode(): one.message for one in sent}
        looked_at = sorted({number for one in sent for number in partitions_of(one.message, len(partitions))})

        def ours(record: Any) -> bool:
            name = headers_of(record).get(protocol.ID)
            message = wanted.get(name) if name is not None else None
            return message is not None and (record.key, record.value) == (message.key, message.value)

        found = self._reader.read(topic, looked_at, _spread(moments), ours)
        if decided and not found and len(looked_at) < len(partitions):
            named = ", ".join(map(str, looked_at)) or "none"
            self._notes.append(f"{topic}: other partitions than those where it belongs ({named} of {len(partitions)})")
        return [delivered(record) for record in found]

    def _events(self, records: Iterable[Any]) -> list[StoryEvent]:
        found = (event_of(record, self._topics) for record in records)
        return [event for event in found if event is not None]


def _told(events: Iterable[StoryEvent], half: HalfPosition) -> list[StoryEvent]:
    """Those of the half message and of what the job wrote of it again, each once, by time."""
    copies = {event.half for event in events if event.kind in {EventKind.HELD, EventKind.UNDELIVERABLE}}
    copies |= {event.half for event in events if event.kind in {EventKind.PARKED, EventKind.NOT_PARKED}}
    ours = {half, None, *copies}
    return sorted(dict.fromkeys(event for event in events if event.half in ours), key=lambda event: event.time_ms)


def _commits(events: Iterable[StoryEvent]) -> list[int]:
    """When it may have been delivered: commits, the end of a delay, the end of its being parked."""
    found = []
    for event in events:
        if (
            (event.kind is EventKind.OP and event.action in _DELIVERS)
            or (event.kind is EventKind.HALF and event.action == HalfAction.COMMIT)
            or (event.kind is EventKind.NOT_PARKED and event.action.startswith("committed"))
        ):
            found.append(event.time_ms)
        elif event.kind is EventKind.HELD:
            found.append(event.deliver_at_ms)
    if found:
        found += [event.deliver_at_ms for event in events if event.kind is EventKind.HALF and event.deliver_at_ms]
    return found


def _spread(moments: Iterable[int]) -> list[int]:
    """Not too many moments, those close to one another as one: what lies behind each is looked at."""
    found: list[int] = []
    for moment in sorted(moments):
        if not found or moment - found[-1] > _BEFORE_MS:
            found.append(moment)
    return [*found[: _MOST_MOMENTS // 2], *found[_MOST_MOMENTS // 2 :][-_MOST_MOMENTS // 2 :]]


def _by_topic(sent: Iterable[Sent]) -> Iterator[tuple[str, list[Sent]]]:
    topics: dict[str, list[Sent]] = {}
    for one in sent:
        topics.setdefault(one.message.topic, []).append(one)
    yield from topics.items()
