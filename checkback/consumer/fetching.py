"""The fetch loop: one thread that reads, hands out, pauses, and stores. Listeners never hold it up."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from time import monotonic

from checkback.consumer.clients.base import (
    AT_ONCE,
    KafkaAwayError,
    OffsetsGoneError,
    RebalanceInProgressError,
)
from checkback.consumer.clients.group_client import GroupClient
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.partitions import Partitions
from checkback.consumer.offsets.poison_messages import CALM_SECONDS
from checkback.consumer.offsets.work import Parcel, PartitionWork
from checkback.consumer.retries.failed_parcels import Timers
from checkback.consumer.settings import ConsumerSettings, Mode, Order
from checkback.consumer.workers import Workers
from checkback.exceptions import CheckbackError, ConsumerError
from checkback.kafka.outages import Outage

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_BUSY_POLL_SECONDS = 0.01
_LOOK_SECONDS = 1.0
_MORE_PARTITIONS_SECONDS = 30.0
_LEAVE_SECONDS = 5.0
_SAY_WAITING_SECONDS = 5.0

Reset = tuple[Mapping[TopicPartition, int], "Future[Mapping[TopicPartition, tuple[int, int]]]"]


class FetchLoop:
    """Reads until stopped.

    Args:
        client: the consumer.
        partitions: its partitions.
        workers: who call the listener.
        failed: what to do with a parcel of which the listener has said *later*.
        timers: parcels that are to be handed out again.
        settings: the consumer's.
    """

    def __init__(
        self,
        client: GroupClient,
        partitions: Partitions,
        workers: Workers,
        failed: Callable[[Parcel], None],
        timers: Timers,
        settings: ConsumerSettings,
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._workers = workers
        self._failed = failed
        self._timers = timers
        self._settings = settings
        self._paused: dict[TopicPartition, PartitionWork] = {}
        self._message_bytes = 1
        """Of a message, about: as those were that came last. Nothing is known of the first ones."""
        self._alone: PartitionWork | None = None
        self._resets: SimpleQueue[Reset] = SimpleQueue()
        self._over = False
        self._outage = Outage("reading", lambda: time.monotonic_ns() // 1_000_000)
        self._not_stored = Outage("storing offsets", lambda: time.monotonic_ns() // 1_000_000)
        self._next_store = monotonic() + settings.store_interval
        self._next_look = monotonic() + _LOOK_SECONDS
        self._next_count = monotonic() + _MORE_PARTITIONS_SECONDS
        self._say_waiting_at: float | None = monotonic() + _SAY_WAITING_SECONDS
        self._gone: dict[PartitionWork, int | None] = {}
        """Where nothing more can be read, and what was read is handled first; None: it is not what was read on from."""
        self._made_again: SimpleQueue[str] = SimpleQueue()
        self._to_forget = False
        """Whether the client still remembers a topic that was made again."""
        self.ends: dict[TopicPartition, int] = {}
        """Ends of partitions, as they were last heard of."""

    def reset(self, offsets: Mapping[TopicPartition, int]) -> "Future[Mapping[TopicPartition, tuple[int, int]]]":
        """Set those of these partitions that are ours to other offsets; from any thread."""
        done: Future[Mapping[TopicPartition, tuple[int, int]]] = Future()
        self._resets.put((offsets, done))
        if self._over:
            self._refuse_resets()
        return done

    def topics_are(self, ids: Mapping[str, str]) -> None:
        """Topics by what tells them from others of the same name; from any thread.

        One that is another than before has other messages at the same offsets, and clients may read on as if it were
        the same: what lies before was never read.
        """
        known = self._partitions.topic_ids
        for topic, found in ids.items():
            if known.setdefault(topic, found) != found:
                known[topic] = found
                self._made_again.put(topic)

    def run(self, stopping: threading.Event) -> None:
        """Read until stopped. Kafka may go away and come back.

        Raises:
            CheckbackError: something that does not pass by itself.
        """
        while not stopping.is_set():
            try:
                self._round()
            except RebalanceInProgressError as error:  # a short pause: all members wait for this one to poll
                _LOGGER.debug("Not yet: %s", error)
                stopping.wait(_POLL_SECONDS)
            except KafkaAwayError as error:
                stopping.wait(self._outage.failed(error))

    def leave(self) -> None:
        """Finish, and leave the group.

        While the group shares its partitions out again, kafka-python stores nothing: it is tried until that is over.
        """
        self._over = True
        self._refuse_resets()
        deadline = monotonic() + _LEAVE_SECONDS
        while True:
            try:
                self._partitions.finish()
                break
            except KafkaAwayError as error:
                if monotonic() > deadline:
                    _LOGGER.warning("Not all that is done could be stored, and is done again: %s", error)
                    break
            with contextlib.suppress(CheckbackError):  # what has ended it perhaps, and comes again
                self._client.poll(_POLL_SECONDS)
        self._client.close()

    def _round(self) -> None:
        try:
            polled = self._client.poll(self._patience(), self._most())
        except OffsetsGoneError as error:
            self._read_no_more(error.offsets)
            self._go_on_where_gone()
            return
        if polled:
            self._take(polled)
            self._outage.answered()
        rejoin = self._partitions.settle()
        now = monotonic()
        self._workers.put([parcel for parcel in self._timers.due(now) if parcel.work.rested(parcel)])
        self._hand_out_chunks()
        self._pause_and_resume()
        if self._partitions.new:
            self._partitions.begin()
        self._reset_now()
        self._read_made_again()
        self._go_on_where_gone()
        self._rejoin(at_once=rejoin)
        self._store(now)

    def _take(self, polled: Mapping[TopicPartition, Sequence[ReceivedMessage]]) -> None:
        works = self._partitions.works
        number = size = 0
        for partition, messages in polled.items():
            work = works.get(partition)
            if work is not None and not work.stopped:
                before = work.bytes_read
                self._workers.put(work.take(messages))
                size += work.bytes_read - before
                number += len(messages)
        if number:
            self._message_bytes = max(1, size // number)

    def _most(self) -> int:
        """How many messages there is room for, if they are as large as the last ones."""
        room = self._settings.max_bytes - self._held()
        return max(1, min(AT_ONCE, room // self._message_bytes))

    def _held(self) -> int:
        return sum(work.bytes for work in list(self._partitions.works.values()))

    def _patience(self) -> float:
        chunks = any(work.holds_back for work in list(self._partitions.works.values()))
        most = _BUSY_POLL_SECONDS if self._paused or self._partitions.new or chunks else _POLL_SECONDS
        return self._timers.wait(monotonic(), most)

    def _store(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._look(now)
        if now >= self._next_store and self._has_stored(self._partitions.store_all):
            self._next_store = now + self._settings.store_interval
            self._not_stored.answered()
            self._outage.answered()

    def _has_stored(self, store: Callable[[], bool]) -> bool:
        """``False``: not now. Where only the group's coordinator is away, reading goes on, as far as windows let."""
        try:
            return store()
        except RebalanceInProgressError:
            raise
        except KafkaAwayError as error:
            self._next_store = monotonic() + self._not_stored.failed(error)
            return False

    def _look(self, now: float) -> None:
        """What need not be looked at each time."""
        self._say_that_it_waits(now)
        self._give_up_hanging(now)
        for partition, work in list(self._partitions.works.items()):
            reads_next = self._client.reads_next(partition)
            if reads_next is not None and not work.stopped:
                work.reached(reads_next)
        if not self._not_stored.lasts:
            self._has_stored(self._partitions.store_early)
        ends = {one: self._client.end_known(one) for one in list(self._partitions.works)}
        self.ends = {one: end for one, end in ends.items() if end is not None}
        if self._settings.mode is Mode.BROADCASTING and now >= self._next_count:
            self._next_count = now + _MORE_PARTITIONS_SECONDS
            self._partitions.read_all()
        for work in list(self._partitions.works.values()):
            if work.endings.without_a_word:
                self._workers.put(work.calm(lived=now - work.since >= CALM_SECONDS))

    def _say_that_it_waits(self, now: float) -> None:
        if self._partitions.works:
            self._say_waiting_at = None
        elif self._say_waiting_at is not None and now >= self._say_waiting_at:
            self._say_waiting_at = None
            _LOGGER.warning(
                "No partition for %.0f s. Either other members have them all, or the group waits for one that has "
                "ended without leaving it (SIGKILL; SIGTERM without close()), until that one's session times out: "
                "45 s, unless session.timeout.ms says otherwise",
                _SAY_WAITING_SECONDS,
            )

    def _read_made_again(self) -> None:
        while not self._made_again.empty():
            topic = self._made_again.get()
            self._read_no_more(dict.fromkeys(one for one in self._partitions.works if one.topic == topic))
            self._to_forget = True

    def _rejoin(self, *, at_once: bool) -> None:
        """Join the group as a new client, ``at_once`` or for a topic that was made again, if there is any.

        For the latter, what was read of the old topic is handled, and it is stored where its partitions go on.

        While Kafka is away this raises, and is tried again.
        """
        if not at_once and (not self._to_forget or self._gone):
            return
        if at_once:
            _LOGGER.info("A connection failed while offsets were stored: leaving the group and joining it again")
        self._partitions.finish()
        partitions = list(self._partitions.works)
        self._partitions.left(partitions)
        if self._settings.mode is Mode.BROADCASTING:  # nobody shares them out
            self._partitions.new |= set(partitions)
        self._client.forget()
        self._to_forget = False

    def _read_no_more(self, partitions: Mapping[TopicPartition, int | None]) -> None:
        """Nothing is asked of these any more: it would be refused each time, and nothing else be read."""
        works = self._partitions.works
        gone = {works[one]: offset for one, offset in partitions.items() if one in works}
        self._gone |= gone
        self._client.pause([work.partition for work in gone])

    def _go_on_where_gone(self) -> None:
        """As soon as what was read of a partition is handled: it cannot be read again.

        While Kafka is away this raises, and is tried again.
        """
        works = self._partitions.works
        # one that was lost, and has come back since, was begun where it is stored
        self._gone = {work: offset for work, offset in self._gone.items() if works.get(work.partition) is work}
        for work, offset in list(self._gone.items()):
            position, _, held = work.progress()
            if not held:
                at = position if offset is None else offset
                self._partitions.go_on({work.partition: at}, made_again=offset is None)
                del self._gone[work]

    def _reset_now(self) -> None:
        while True:
            try:
                offsets, done = self._resets.get_nowait()
            except Empty:
                return
            self._partitions.reset(offsets, done)

    def _refuse_resets(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._resets.get_nowait()[1].set_exception(ConsumerError("The consumer has ended."))

    def _pause_and_resume(self) -> None:
        works = self._partitions.works
        # one that was begun again is not paused any more
        self._paused = {one: work for one, work in self._paused.items() if works.get(one) is work}
        most, held = self._settings.max_bytes, self._held()
        share = most / max(1, len(works))
        full = [
            one
            for one, work in works.items()
            if one not in self._paused and (held >= most or work.full or work.bytes >= share)
        ]
        if full:
            self._client.pause(full)
            self._paused |= {one: works[one] for one in full}
        roomy = [
            one
            for one, work in self._paused.items()
            if work.roomy and work.bytes <= share / 2 and work not in self._gone
        ]
        if roomy and held <= most / 2:
            self._client.resume(roomy)
            for partition in roomy:
                del self._paused[partition]

    def _hand_out_chunks(self) -> None:
        """Of partitions whose readers have ended without a word: :mod:`checkback.consumer.offsets.poison_messages`."""
        for work in list(self._partitions.works.values()):
            if not work.chunk_waits or work.stopped:
                continue
            if not work.one_by_one:
                if self._partitions.store_some([work]):
                    self._workers.put(work.next_chunk())
            elif not self._is_alone(self._alone):
                before, self._alone = self._alone, work
                self._hand_out_one(work, before)

    def _is_alone(self, work: PartitionWork | None) -> bool:
        """Whether a message of it is under way alone; one that is well hands out what it has: nobody waits for it."""
        return work is not None and work.one_by_one and work.busy and not work.stopped

    def _hand_out_one(self, work: PartitionWork, before: PartitionWork | None) -> None:
        """``before``: that of which a message was begun alone before; that it is done must be stored, too, or the death
        to come would count as that message's as well.
        """
        if work.kills():
            parcel = work.take_first_waiting()
            if parcel is not None:
                died = f"{work.endings.alone} consumers have ended without a word while they were at work on it"
                parcel.reasons = dict.fromkeys(parcel.offsets, died)
                self._failed(parcel)
            return
        work.about_to_begin()
        stored = False
        try:
            stored = self._partitions.store_some([one for one in {before, work} if one is not None])
        finally:
            if not stored:
                work.not_begun()
        if stored:
            self._workers.put(work.next_chunk())

    def _give_up_hanging(self, now: float) -> None:
        longest = self._settings.listener_timeout
        for work in list(self._partitions.works.values()):
            for parcel in work.in_hand:
                if now - parcel.begun < longest or parcel.said_to_hang:
                    continue
                parcel.said_to_hang = True
                waits = self._settings.order is not Order.NONE
                _LOGGER.error(
                    "The listener has had %s (%s %s) for %.0f s; %s",
                    *(parcel.messages[0].id, work.partition, parcel.offsets[0], now - parcel.begun),
                    "those behind it wait" if waits else "it is given up, as if it had failed",
                )
                if not waits and work.put_down(parcel):
                    parcel.failure = f"the listener had not ended after {longest:.0f} s"
                    self._workers.replace_one()
                    self._failed(parcel)
