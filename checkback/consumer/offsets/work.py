"""One partition's messages, from being read to being done: what may be handed out, and what may be stored.

No Kafka, no clock, no threads of its own. The fetch loop gives messages and takes what may be stored; workers say how
each ended.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from checkback.consumer.listener import NOT_UTF_8, ReceivedMessage, TopicPartition, UnreadableMessage
from checkback.consumer.offsets import poison_messages as ends
from checkback.consumer.offsets.counts import MessageCounts, PartitionProgress
from checkback.consumer.offsets.metadata import Endings, LastingFacts, Stored, decode, encode
from checkback.consumer.offsets.window import OffsetWindow
from checkback.consumer.retry import as_it_was
from checkback.consumer.settings import ConsumerSettings, Order
from checkback.consumer.tags import TagExpression

_MESSAGE_BYTES = 200
"""What a message takes besides its content, about."""

_WHOLE_PARTITION = object()
_NO_REASONS: Mapping[int, str] = MappingProxyType({})


class Parcel:
    """What a listener gets at once: one message, or several of one partition."""

    __slots__ = ("begun", "failure", "lane", "messages", "offsets", "reasons", "said_to_hang", "size", "work")

    def __init__(self, work: "PartitionWork", lane: object, offset: int, message: ReceivedMessage, size: int) -> None:
        self.work = work
        self.lane = lane
        """What it waits for, and what waits for it; None: nothing."""
        self.messages = [message]
        self.offsets = [offset]
        """Where the messages lie now, in the partition that is worked on."""
        self.size = size
        self.begun = 0.0
        """When a listener got it, by the consumer's clock."""
        self.said_to_hang = False
        self.failure = ""
        """What the listener has raised, the last time; empty when it has said *later*."""
        self.reasons: Mapping[int, str] = _NO_REASONS
        """Of those that are not to be tried again, by offset: why."""

    def add(self, offset: int, message: ReceivedMessage, size: int) -> None:
        """One message more."""
        self.offsets.append(offset)
        self.messages.append(message)
        self.size += size

    def never_again(self, offset: int, why: str) -> None:
        """One of them is not to be tried again."""
        self.reasons = {**self.reasons, offset: why}

    def failed_once_more(self) -> None:
        """It was tried, and is tried here again."""
        self.messages = [message._replace(tries=message.tries + 1) for message in self.messages]


@dataclass(frozen=True)
class WorkRules:
    """What holds for all messages of a partition."""

    settings: ConsumerSettings
    tags: TagExpression = field(default_factory=lambda: TagExpression.parse("*"))
    retries: bool = False
    """Whether it is the group's retry topic."""
    topics: Callable[[], Collection[str] | None] = lambda: None
    """Of its retry topic: those that the group has begun to read; None where nobody knows, and of other topics."""


class PartitionWork:
    """The messages of one partition that were read. ``stored``: where to begin, and what is done behind that.

    All methods but :meth:`take` and :meth:`next_chunk` may be called from any thread.
    """

    def __init__(self, partition: TopicPartition, stored: Stored, rules: WorkRules, since: float = 0.0) -> None:
        note = decode(stored)
        self.partition = partition
        self.since = since
        """When it was begun, by the consumer's clock."""
        self.counts = MessageCounts()
        self.kept = note.kept
        """What is stored beside the offset, wherever that goes."""
        self.window = OffsetWindow(stored.offset, note.done)
        self.stored = stored
        """What is stored, as far as is known."""
        self.endings = ends.begun(note.endings) if rules.settings.max_deaths else Endings()
        self._alone_at = stored.offset
        self._chunk = ends.chunk(self.endings)
        self._suspected = ends.suspected(note.endings)
        self._finished = 0
        self._watched: frozenset[Parcel] | None = None
        self.bytes = 0
        """Of messages in memory."""
        self.bytes_read = 0
        """Of all that were ever taken."""
        self.stopped = False
        """Nothing is handed out any more: the partition goes, or begins again elsewhere."""
        self._rules = rules
        self._lock = threading.Lock()
        self._in_hand: set[Parcel] = set()
        self._lanes: dict[object, deque[Parcel]] = {}
        self._waiting: deque[Parcel] = deque()  # for the chunk before theirs
        self._resting: Parcel | None = None
        self._handed = 0

    def progress(self) -> PartitionProgress:
        """How far it is."""
        with self._lock:
            return PartitionProgress(self.window.position, self.window.span, self.window.held)

    @property
    def full(self) -> bool:
        """Whether reading is to pause."""
        settings = self._rules.settings
        with self._lock:
            return self.window.held >= settings.max_messages or self.window.span >= settings.max_span

    @property
    def roomy(self) -> bool:
        """Whether reading may continue after a pause."""
        settings = self._rules.settings
        with self._lock:
            return self.window.held <= settings.max_messages // 2 and self.window.span < settings.max_span

    @property
    def in_hand(self) -> list[Parcel]:
        """What listeners have."""
        with self._lock:
            return list(self._in_hand)

    def take(self, messages: Sequence[ReceivedMessage]) -> list[Parcel]:
        """Messages were read; gives what may be handed out now. Those that are done already are passed over."""
        with self._lock:
            parcels = self._parcels(messages)
            if self._chunk is None:
                return self._admitted(parcels)
            self._waiting.extend(parcels)
            return []

    def reached(self, offset: int) -> None:
        """All messages before this offset were given to :meth:`take`."""
        with self._lock:
            self.window.reached(offset)

    def next_chunk(self) -> list[Parcel]:
        """After readers that have ended without a word: what may be handed out once all before is done and stored."""
        most = self._chunk
        with self._lock:
            chunk: list[Parcel] = []
            while self._waiting and (most is None or sum(len(one.offsets) for one in chunk) < most):
                chunk.append(self._waiting.popleft())
            return self._admitted(chunk)

    @property
    def chunk_waits(self) -> bool:
        """Whether the next chunk may be handed out, once what is done is stored."""
        with self._lock:
            return bool(self._waiting) and not self._handed

    @property
    def holds_back(self) -> bool:
        """Whether messages that were read wait for the chunk before theirs."""
        with self._lock:
            return bool(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether anything that was handed out is not done, and does not rest."""
        with self._lock:
            return self._handed > 0 and self._resting is None

    @property
    def one_by_one(self) -> bool:
        """Whether chunks are of one message."""
        return self._chunk == 1

    def about_to_begin(self) -> None:
        """The message at the position will be under way alone: that is counted, to be stored before."""
        with self._lock:
            position = self.window.position
            counted = self.endings.alone if position == self._alone_at else 0
            self.endings, self._alone_at = self.endings._replace(alone=counted + 1), position

    def not_begun(self) -> None:
        """It was not, after all."""
        with self._lock:
            self.endings = self.endings._replace(alone=self.endings.alone - 1)

    def rest(self, parcel: Parcel) -> None:
        """It has failed, and is tried here again later. If it was begun alone, it has not killed: nobody waits for it
        until then, and it does not count.
        """
        with self._lock:
            if self._chunk == 1 and not self._resting and self.endings.alone:
                self._resting = parcel
                self.endings = self.endings._replace(alone=self.endings.alone - 1)

    def rested(self, parcel: Parcel) -> bool:
        """Its time has come: whether it may be handed out; else it waits until it may be begun alone again."""
        with self._lock:
            if self.stopped:
                return False
            if parcel is not self._resting:
                return True
            self._resting = None
            if self._chunk is None:
                return True
            self._handed -= len(parcel.offsets)
            self._lanes.pop(parcel.lane, None)  # alone, it has none behind it
            self._waiting.appendleft(parcel)
            return False

    def kills(self) -> bool:
        """Whether the message at the position is one that is not to be handed out."""
        with self._lock:
            position = self.window.position
        return position == self._alone_at and ends.kills(self.endings, self._rules.settings.max_deaths)

    def take_first_waiting(self) -> Parcel | None:
        """Take the message at the position away from those to be handed out."""
        with self._lock:
            if not self._waiting:
                return None
            parcel = self._waiting.popleft()
            self._handed += len(parcel.offsets)
            return parcel

    def calm(self, *, lived: bool) -> list[Parcel]:
        """Take back what is stored of readers before, if nothing is left that may have killed them.

        ``lived``: whether this one has for :data:`~checkback.consumer.offsets.poison_messages.CALM_SECONDS`. Gives
        what waited, when it has to wait no longer.
        """
        with self._lock:
            if self._suspected is not None:
                well = self._finished >= self._suspected or (lived and not self.window.held)
            elif lived:
                self._watched = frozenset(self._in_hand) if self._watched is None else self._watched & self._in_hand
                well = not self._watched
            else:
                return []
        if well:
            with self._lock:
                self.endings = Endings(running=True)
        elif self._suspected is not None:
            return []
        self._chunk = None
        return self.next_chunk()

    def begin(self, parcel: Parcel, now: float) -> bool:
        """A listener is about to get it; False: it must not."""
        with self._lock:
            if self.stopped:
                return False
            parcel.begun = now
            self._in_hand.add(parcel)
            return True

    def put_down(self, parcel: Parcel) -> bool:
        """The listener has ended, or is given up; False when that is so already, or the partition is gone."""
        with self._lock:
            if parcel not in self._in_hand:
                return False
            self._in_hand.remove(parcel)
            return not self.stopped

    def succeeded(self, parcel: Parcel) -> Parcel | None:
        """The listener is done with it; gives what waited for it, if anything did."""
        with self._lock:
            if parcel not in self._in_hand:
                return None
            self._in_hand.remove(parcel)
            self.counts.done += len(parcel.offsets)
            return self._ended(parcel)

    def apart(self, parcel: Parcel) -> list[Parcel]:
        """A batch that has failed, as messages that come alone: gives what may be handed out of it, in its place."""
        each = zip(parcel.offsets, parcel.messages, strict=True)
        alone = [Parcel(self, parcel.lane, offset, message, _size(message)) for offset, message in each]
        for one in alone:
            one.failure = parcel.failure
        if parcel.lane is None:
            return alone
        with self._lock:
            self._lanes[parcel.lane].extendleft(reversed(alone[1:]))
        return alone[:1]

    def ended(self, parcel: Parcel) -> Parcel | None:
        """It is done with in another way; gives what waited for it, if anything did."""
        with self._lock:
            return self._ended(parcel)

    def to_store(self, besides: Iterable[int] = (), *, leaving: bool = False) -> Stored:
        """What to store now. ``besides``: offsets that are done by the same transaction."""
        with self._lock:
            position, done = self.window.done_ahead(besides)
        endings = self.endings if position == self._alone_at else self.endings._replace(alone=0)
        endings = endings._replace(running=False) if leaving else endings
        return encode(position, done, endings, topics=self._rules.topics(), kept=self.kept)

    def at(self, offset: int, kept: LastingFacts, *, with_done: bool = False) -> Stored:
        """What to store where it goes on at another offset. ``with_done``: with what is done behind it."""
        with self._lock:
            position, done = self.window.done_ahead()
        behind = done if with_done and position == offset else ()
        return encode(offset, behind, topics=self._rules.topics(), kept=kept)

    def count(self, *, retried: int = 0, dead: int = 0, given_up: int = 0) -> None:
        """What has become of messages that have failed."""
        with self._lock:
            self.counts.add(MessageCounts(retried=retried, dead=dead, given_up=given_up))

    def stop(self) -> None:
        """Hand out nothing any more."""
        with self._lock:
            self.stopped = True

    def _parcels(self, messages: Sequence[ReceivedMessage]) -> list[Parcel]:
        settings, tags, retries = self._rules.settings, self._rules.tags, self._rules.retries
        # what is tried again comes alone: which message of a batch has failed it is not known
        together = 1 if self.one_by_one or retries else settings.batch or 1
        filling: dict[object, Parcel] = {}
        parcels: list[Parcel] = []
        for message in messages:
            offset = message.offset
            if not self.window.taken(offset):
                continue
            unreadable = type(message) is UnreadableMessage
            if not (unreadable or tags.admits_all or tags.admits(message.header(settings.tag_header))):
                self.window.done(offset)
                self.counts.filtered += 1
                continue
            size = _size(message)
            self.bytes += size
            self.bytes_read += size
            lane = self._lane(message)
            parcel = filling.get(lane) if together > 1 and not unreadable else None
            was = as_it_was(message) if retries and not unreadable else message
            if unreadable:
                parcels.append(Parcel(self, lane, offset, was, size))
                parcels[-1].never_again(offset, NOT_UTF_8)
                continue
            if parcel is None:
                parcel = Parcel(self, lane, offset, was, size)
                parcels.append(parcel)
                filling[lane] = parcel
            else:
                parcel.add(offset, was, size)
            if len(parcel.offsets) == together:
                del filling[lane]
        return parcels

    def _lane(self, message: ReceivedMessage) -> object:
        order = self._rules.settings.order
        if order is Order.NONE or (order is Order.KEY and message.key is None):
            return None
        return _WHOLE_PARTITION if order is Order.PARTITION else message.key

    def _admitted(self, parcels: Iterable[Parcel]) -> list[Parcel]:
        free = []
        for parcel in parcels:
            self._handed += len(parcel.offsets)
            if parcel.lane is None:
                free.append(parcel)
            elif parcel.lane in self._lanes:
                self._lanes[parcel.lane].append(parcel)
            else:
                self._lanes[parcel.lane] = deque()
                free.append(parcel)
        return free

    def _ended(self, parcel: Parcel) -> Parcel | None:
        for offset in parcel.offsets:
            self.window.done(offset)
        self._handed -= len(parcel.offsets)
        self._finished += len(parcel.offsets)
        self.bytes -= parcel.size
        if parcel.lane is None:
            return None
        lane = self._lanes.get(parcel.lane)
        if lane:
            return None if self.stopped else lane.popleft()
        self._lanes.pop(parcel.lane, None)
        return None


def _size(message: ReceivedMessage) -> int:
    size = _MESSAGE_BYTES + len(message.key or b"") + len(message.value or b"")
    for name, content in message.headers:
        size += len(name) + len(content or b"")
    return size
