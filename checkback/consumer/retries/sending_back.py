"""Sends failed messages back: to be tried again, or as dead letters, in one transaction with the group's offsets."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from checkback.consumer.clients.base import KafkaAwayError, RecordRefusedError
from checkback.consumer.clients.sender import Sender
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.offsets.storing import StoringTurns
from checkback.consumer.offsets.work import Parcel, PartitionWork
from checkback.consumer.retry import OwnTopics, SentBack, dead_letter, tried_again
from checkback.consumer.settings import ConsumerSettings, Order
from checkback.exceptions import CheckbackError, ProtocolError
from checkback.kafka.outages import Outage

_LOGGER = logging.getLogger(__name__)
_MOST_MESSAGES = 500
_MOST_BYTES = 8 << 20
_LOOK_SECONDS = 0.2
_SETTLE_AGAIN_SECONDS = 1.0


class SentBackParcel(NamedTuple):
    """One that Kafka has: how many of its messages will be tried again, and how many are dead letters."""

    parcel: Parcel
    retried: int
    dead: int


class SendingClients(NamedTuple):
    """What sending back needs of Kafka."""

    connect: Callable[[], Sender]
    """Makes the transactional producer; the one before it has been closed."""
    membership: Callable[[], object]
    """What proves to a transaction that this consumer is in its group; raises KafkaAwayError while it is not."""
    stored: Callable[[Collection[TopicPartition]], dict[TopicPartition, Stored]]
    """What the group has stored."""
    make_topics: Callable[[], None]
    """Makes those of the group's own topics that are missing."""
    named: Callable[[CheckbackError], CheckbackError] = lambda error: error
    """An error as people are told of it: with the rights that are lacking, where Kafka does not allow something."""


class SendingBack:
    """Takes failed parcels from any thread; a thread of its own sends them, as many at once as there are.

    Args:
        clients: of Kafka.
        own: the group's topics.
        settings: the consumer's.
        sent: told what Kafka has.
        failed: told of what could not be sent, and is to be tried here again.
        turns: of those who store offsets.
    """

    def __init__(
        self,
        clients: SendingClients,
        own: OwnTopics,
        settings: ConsumerSettings,
        sent: Callable[[SentBackParcel], None],
        failed: Callable[[Parcel], None],
        turns: StoringTurns,
    ) -> None:
        self._turns = turns
        self._clients = clients
        self._own = own
        self._settings = settings
        self._sent = sent
        self._failed = failed
        self._parcels: deque[Parcel] = deque()
        self._there = threading.Event()
        self._sender: Sender | None = None
        self._in_doubt: _InDoubt | None = None
        self._outage = Outage("sending back", lambda: time.monotonic_ns() // 1_000_000)

    def give(self, parcel: Parcel) -> None:
        """A parcel has failed."""
        self._parcels.append(parcel)
        self._there.set()

    def run(self, stopping: threading.Event) -> None:
        """Send until stopped. What waits then is done by whoever comes next."""
        while not stopping.is_set():
            if self._in_doubt:
                with self._turns.turn():
                    settled = self._settle(self._in_doubt)
                if not settled:
                    stopping.wait(_SETTLE_AGAIN_SECONDS)
            elif self._parcels:
                with self._turns.turn():
                    went = self._send_some()
                if not went:
                    stopping.wait(_LOOK_SECONDS)
            else:
                self._there.wait(_LOOK_SECONDS)
                self._there.clear()
                if self._sender is not None:
                    self._sender.take_log()

    def close(self) -> None:
        """End the producer."""
        if self._sender is not None:
            self._sender.close()

    def _send_some(self) -> bool:
        """``False``: nothing can go at this moment; the consumer is in no group, for example.

        Membership is taken before the parcels. One that the group takes meanwhile is stopped, and left out, or it goes
        later than that: then the transaction is refused. The other way round a consumer that the group has gone on
        without, and that has joined it again, would prove by the new membership what it has read under the old one.
        """
        try:
            membership = self._clients.membership()
        except KafkaAwayError as error:
            _LOGGER.debug("Sending back waits: %s", error)
            return False
        some = self._some()
        self._send(some, membership)
        return bool(some)

    def _some(self) -> list[Parcel]:
        """As many as go into one transaction; none of a partition that goes, or whose offsets may come late."""
        found: list[Parcel] = []
        waiting: list[Parcel] = []
        messages = size = 0
        while self._parcels and messages < _MOST_MESSAGES and size < _MOST_BYTES:
            parcel = self._parcels.popleft()
            if parcel.work.partition in self._turns.unanswered:
                waiting.append(parcel)
            elif not parcel.work.stopped:
                found.append(parcel)
                messages += len(parcel.messages)
                size += parcel.size
        self._parcels.extendleft(reversed(waiting))
        self._turns.waited_for = bool(waiting)
        return found

    def _send(self, parcels: Sequence[Parcel], membership: object) -> None:
        if not parcels:
            return
        records: list[SentBack] = []
        owners: list[tuple[Parcel, int]] = []
        now_ms = time.time_ns() // 1_000_000
        for parcel in parcels:
            for offset, message in zip(parcel.offsets, parcel.messages, strict=True):
                records.append(self._record(parcel, offset, message, now_ms))
                owners.append((parcel, offset))
        offsets = _stored_with(parcels)
        try:
            self._transact(records, offsets, membership)
        except RecordRefusedError as error:
            self._refused(parcels, records[error.number], *owners[error.number], str(error))
        except CheckbackError as error:
            self._drop_sender()
            _LOGGER.warning("Sending back failed, of %s messages: %s", len(records), self._clients.named(error))
            self._in_doubt = _InDoubt(parcels, offsets)
            self._turns.unsettled = frozenset(offsets)
        else:
            for parcel in parcels:
                self._report(parcel)
            _were_stored(parcels, offsets)

    def _transact(
        self, records: Sequence[SentBack], offsets: Mapping[TopicPartition, Stored], membership: object
    ) -> None:
        for one_by_one in (False, True):
            if self._sender is None:
                self._sender = self._clients.connect()
            try:
                self._sender.send(records, offsets, membership, one_by_one=one_by_one)
            except RecordRefusedError:
                self._drop_sender()
                if one_by_one or len(records) == 1:
                    raise
            else:
                if self._sender.spent:  # at once: until the next one fences, a late request may still move offsets
                    self._drop_sender()
                    self._sender = self._clients.connect()
                return

    def _record(self, parcel: Parcel, offset: int, message: ReceivedMessage, now_ms: int) -> SentBack:
        reason = parcel.reasons.get(offset, "")
        in_vain = message.tries >= self._settings.max_reconsume_times
        if not reason and (in_vain or self._settings.order is not Order.NONE):
            reason = f"tried {message.tries + 1} times in vain"
            reason += f"; at last {parcel.failure}" if parcel.failure else ""
        if not reason:
            pause_ms = round(self._settings.retry_delay(message.tries) * 1000)
            try:
                return tried_again(message, self._own, now_ms, pause_ms)
            except ProtocolError as error:
                reason = f"it cannot be tried again later: {error}"
        parcel.never_again(offset, reason)
        return dead_letter(message, self._own, reason)

    def _report(self, parcel: Parcel) -> None:
        dead = len(parcel.reasons)
        self._sent(SentBackParcel(parcel, len(parcel.offsets) - dead, dead))

    def _refused(self, parcels: Iterable[Parcel], record: SentBack, owner: Parcel, offset: int, why: str) -> None:
        """Nothing was written. What is not taken for a later try is a dead letter; what is not taken as one, waits."""
        if record.topic == self._own.dead:
            _LOGGER.error("%s does not take a dead letter (%s): correct that. It is tried again.", record.topic, why)
            self._failed(owner)
            parcels = [parcel for parcel in parcels if parcel is not owner]
        else:
            owner.never_again(offset, f"it cannot be tried again later: {record.topic} does not take it ({why})")
        self._parcels.extendleft(parcels)
        self._there.set()

    def _settle(self, in_doubt: "_InDoubt") -> bool:
        """Find out what became of a transaction: another producer of its name ends it, then Kafka says what is stored.

        ``False``: not yet.
        """
        going = [parcel for parcel in in_doubt.parcels if not parcel.work.stopped]
        try:
            if self._sender is None:
                self._clients.make_topics()  # that one was deleted is no reason to stand still
                self._sender = self._clients.connect()
            stored = self._clients.stored({parcel.work.partition for parcel in going}) if going else {}
        except CheckbackError as error:
            self._outage.failed(self._clients.named(error))
            return False
        self._outage.answered()
        committed: list[Parcel] = []
        for parcel in going:
            partition, before = parcel.work.partition, parcel.work.stored
            if before != stored.get(partition) == in_doubt.offsets[partition]:
                committed.append(parcel)
                self._report(parcel)
            else:
                self._failed(parcel)
        # What else is stored is another member's, though the group's word that it has gone on without this one may not
        # have come yet: taken for its own, a partition that comes back would go on from before the other had it.
        _were_stored(committed, in_doubt.offsets)
        self._in_doubt, self._turns.unsettled = None, frozenset()
        return True

    def _drop_sender(self) -> None:
        if self._sender is not None:
            self._sender.close()
        self._sender = None


def _stored_with(parcels: Iterable[Parcel]) -> dict[TopicPartition, Stored]:
    """What is to be stored when all of these are sent."""
    besides: dict[PartitionWork, list[int]] = {}
    for parcel in parcels:
        besides.setdefault(parcel.work, []).extend(parcel.offsets)
    return {work.partition: work.to_store(offsets) for work, offsets in besides.items()}


def _were_stored(parcels: Iterable[Parcel], offsets: dict[TopicPartition, Stored]) -> None:
    for work in {parcel.work for parcel in parcels}:
        work.stored = offsets[work.partition]


class _InDoubt(NamedTuple):
    """What was in a transaction whose end is not known."""

    parcels: Sequence[Parcel]
    offsets: dict[TopicPartition, Stored]
