"""The partitions a consumer has: how each is begun, stored, and left."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple

from checkback.consumer.clients.base import SEND_MS, KafkaAwayError
from checkback.consumer.clients.group_client import GroupClient
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.counts import MessageCounts
from checkback.consumer.offsets.metadata import LastingFacts, Stored, decode, letters
from checkback.consumer.offsets.starting import Start, begun_before, forgotten, go_on, refuse_outside, start
from checkback.consumer.offsets.storing import OffsetStore, StoringTurns
from checkback.consumer.offsets.work import PartitionWork, WorkRules
from checkback.consumer.settings import ConsumerSettings, StartAt, WhenOffsetIsGone
from checkback.consumer.tags import TagExpression
from checkback.exceptions import CheckbackError

_LOGGER = logging.getLogger(__name__)
_LOOK_SECONDS = 0.005
_TURN_SECONDS = 1.5 * SEND_MS / 1000
_NOTHING = Stored(-1)
_START_SECONDS = 15.0
"""Longest wait for an answer about what is stored, at the start: a Kafka's first group makes a topic of it first."""
_SETTLED_SECONDS = 300.0
"""For members that begin a topic together to have begun all of it."""
_BEHIND = 5_000
"""Offsets done and not stored, at which they are stored before their time."""


class ResetPlace(NamedTuple):
    """A partition that was set to another offset."""

    before: int
    after: int


@dataclass(frozen=True)
class Subscription:
    """What a consumer reads: topics with what is wanted of each, and the group's retry topic, if it has one."""

    topics: Mapping[str, TagExpression]
    retry_topic: str = ""

    @property
    def names(self) -> list[str]:
        """All topics."""
        return [*self.topics, *([self.retry_topic] if self.retry_topic else [])]

    def rules(self, topic: str, settings: ConsumerSettings, begun: Callable[[], Collection[str] | None]) -> WorkRules:
        """What holds for the messages of one of them; ``begun``: the topics that the group has begun to read."""
        if topic == self.retry_topic:
            return WorkRules(settings, retries=True, topics=begun)
        return WorkRules(settings, self.topics[topic])


class Partitions:
    """Told of rebalances (:class:`~checkback.consumer.clients.base.Rebalances`); all else is the fetch loop's.

    Args:
        client: whose partitions they are.
        store: where offsets are stored.
        turns: of those who store.
        subscription: what is read.
        settings: the consumer's.
    """

    def __init__(
        self,
        client: GroupClient,
        store: OffsetStore,
        turns: StoringTurns,
        subscription: Subscription,
        settings: ConsumerSettings,
    ) -> None:
        self._client = client
        self._store = store
        self._turns = turns
        self._subscription = subscription
        self._settings = settings
        self._start_ms = settings.start_ms(datetime.now(UTC))
        self._counted: dict[str, int] = {}
        self._read_before = frozenset[str]()
        """Topics of which the group had stored something when this process began."""
        self._begun_before = frozenset[str]()
        """Topics that it had begun to read then, though Kafka may have forgotten what was stored."""
        self._begun_here: dict[TopicPartition, float] = {}
        """When this process first began each, by its clock."""
        self.works: dict[TopicPartition, PartitionWork] = {}
        self.topic_ids: dict[str, str] = {}
        """What tells topics from others of the same name, as far as it is known; another thread adds to it."""
        self.new = set[TopicPartition]()
        """Ours, and not begun yet."""
        self.gone: dict[str, MessageCounts] = {}
        """By topic, of partitions that are not ours any more."""
        self._lost: dict[TopicPartition, PartitionWork] = {}
        self.on_assigned: Callable[[], None] = lambda: None
        self.on_begun: Callable[[], None] = lambda: None
        """Called when partitions were begun, and that is stored."""

    def count_partitions(self, *, has_run: bool = False) -> list[str]:
        """Note how many partitions the topics have, and which the group reads already; gives those that are missing.

        What is added later begins at its first message: nothing of it can have been written before. What was added
        before this process began is known by the others, for which the group has stored offsets. That is asked before
        the group is joined: members that begin a group together would take each other's first offsets for old ones.

        ``has_run``: see :func:`begun_before`.

        Raises:
            KafkaAwayError: Kafka does not say.
        """
        self._counted = dict.fromkeys(self._subscription.names, 0) | self._client.partitions(self._subscription.names)
        stored = self._stored_at_start()
        self._read_before = frozenset(one.topic for one in stored)
        wanted, retry = self._subscription.topics, self._subscription.retry_topic
        self._begun_before = begun_before(wanted, retry, stored, has_run=has_run)
        return [name for name in wanted if not self._counted[name]]

    def read_all(self) -> None:
        """Without a group: all partitions that there are, and are not read yet, are ours."""
        for topic, count in self._client.partitions(self._subscription.names).items():
            self.new |= {TopicPartition(topic, number) for number in range(count)} - self.works.keys()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """See :class:`~checkback.consumer.clients.base.Rebalances`."""
        self.new |= set(partitions)
        self.on_assigned()

    def leaving(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Stored]:
        """See :class:`~checkback.consumer.clients.base.Rebalances`. Messages in hand may end, for a while."""
        works = self.put_down(partitions)
        with self._turns.turn(_TURN_SECONDS) as ours:
            if not ours:
                _LOGGER.warning(
                    "A transaction takes too long: %s are left without storing their offsets", list(partitions)
                )
                return {}
            return self._changed(works, leaving=True)

    def left(self, partitions: Collection[TopicPartition]) -> None:
        """See :class:`~checkback.consumer.clients.base.Rebalances`."""
        # what is under way for them is refused from now on, as of an older generation
        self._turns.unanswered -= set(partitions)
        for partition in partitions:
            self.new.discard(partition)
            work = self.works.pop(partition, None)
            if work is not None:
                work.stop()
                self._add_up(work)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """See :class:`~checkback.consumer.clients.base.Rebalances`."""
        held = sum(self.works[one].progress().held for one in partitions if one in self.works)
        _LOGGER.warning(
            "The group has gone on without this consumer; %s are lost, with %s messages under way, which another "
            "consumer does as well. Was it stopped for longer than session.timeout.ms?",
            *(", ".join(map(str, sorted(partitions))), held),
        )
        self._lost |= {one: self.works[one] for one in partitions if one in self.works}
        self.left(partitions)

    def put_down(self, partitions: Collection[TopicPartition]) -> list[PartitionWork]:
        """Hand out nothing more of these; let what is in hand end, for ``finish_wait`` at most."""
        works = [self.works[one] for one in partitions if one in self.works]
        handed_out = [work for work in works if not work.stopped]  # others have been waited for
        for work in works:
            work.stop()
        deadline = monotonic() + self._settings.finish_wait
        while any(work.in_hand for work in handed_out) and monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return works

    def begin(self) -> None:
        """Begin partitions that are new: find where, store that it is read from now on, and read.

        Raises:
            CheckbackError: none of them was begun.
        """
        partitions = sorted(self.new)
        stored = self._store.stored(partitions)
        starts = self._starts([one for one in partitions if one not in stored]) | self._started_again(stored)
        begin = stored | {partition: one.stored for partition, one in starts.items()}
        works = {one: self._work(one, self._known(one, begin[one])) for one in partitions}
        for partition, work in works.items():
            work.stored = stored.get(partition, _NOTHING)
            work.counts.skipped = starts[partition].skipped if partition in starts else 0
        self._store_now(works.values())
        self._client.begin({one: work.progress().position for one, work in works.items()})
        self._lost = {one: work for one, work in self._lost.items() if one not in works}
        self.works |= works
        self._begun_here = dict.fromkeys(partitions, monotonic()) | self._begun_here
        self.new.difference_update(partitions)
        self.on_begun()

    def go_on(self, offsets: Mapping[TopicPartition, int], *, made_again: bool = False) -> None:
        """There is no message at these offsets, or these were of another topic. What was read before is handled.

        Raises:
            OffsetGoneError: the setting is to stop.
        """
        ours = [one for one in offsets if one in self.works]
        limits = self._client.limits(ours) if ours else {}
        starts: dict[TopicPartition, Start] = {}
        for at in ours:
            work = self.works[at]
            before = work.at(offsets[at], self._here(at, work.kept), with_done=True)
            starts[at] = go_on(at, before, limits[at], self._setting(at), made_again=made_again)
            _LOGGER.error("%s", starts[at].said)
        self._begin_at({at: one.stored for at, one in starts.items()})
        for at, one in starts.items():
            self.gone[at.topic].skipped += one.skipped  # of the work that was before

    def reset(
        self, offsets: Mapping[TopicPartition, int], done: "Future[Mapping[TopicPartition, tuple[int, int]]]"
    ) -> None:
        """Set those of these that are ours to other offsets: drop what is held, store, read on from there."""
        if not done.set_running_or_notify_cancel():
            return
        ours = {one: offset for one, offset in offsets.items() if one in self.works}
        before = {one: self.works[one].progress().position for one in ours}
        try:
            refuse_outside(ours, self._client.limits(ours) if ours else {})
            kept = {one: self.works[one].kept._replace(skipped=0) for one in ours}
            self._begin_at({one: self.works[one].at(offset, kept[one]) for one, offset in ours.items()})
        except CheckbackError as error:
            done.set_exception(error)
        except BaseException as error:  # it ends the consumer, and whoever waits must not wait for ever
            done.set_exception(error)
            raise
        else:
            done.set_result({one: ResetPlace(before[one], offset) for one, offset in ours.items()})

    def store_all(self) -> bool:
        """Store what has changed; ``False`` when it is not our turn."""
        return self.store_some(list(self.works.values()))

    def store_early(self) -> bool:
        """Store those where nothing is under way any more, and those that are far behind; ``False``: not our turn."""
        early = []
        for work in list(self.works.values()):
            position, _, held = work.progress()
            behind = position - work.stored.offset
            if behind >= _BEHIND or (behind and not held):
                early.append(work)
        return self.store_some(early) if early else True

    def store_some(self, works: Iterable[PartitionWork]) -> bool:
        """Store those that have changed; ``False`` when it is not our turn."""
        with self._turns.turn(0) as ours:
            if now := ours and not self._turns.of_transaction:
                self._store_now([work for work in works if not work.stopped])
            return now

    def settle(self) -> bool:
        """Call it after each poll. Returns whether a transaction waits for what only a new membership settles."""
        if self._client.settled:
            self._turns.settle()
        return self._client.outdated and self._turns.waited_for

    def finish(self) -> None:
        """Let what is in hand end, for a while, and store it: the consumer is about to leave.

        Raises:
            CheckbackError: it is not stored.
        """
        offsets = self.leaving(list(self.works))
        if offsets:
            self._turns.store(self._store, offsets)
            for partition, stored in offsets.items():
                if partition in self.works:
                    self.works[partition].stored = stored

    def _stored_at_start(self) -> Mapping[TopicPartition, Stored]:
        partitions = [TopicPartition(name, number) for name, count in self._counted.items() for number in range(count)]
        deadline = monotonic() + _START_SECONDS
        while True:
            try:
                return self._store.stored(partitions) if partitions else {}
            except KafkaAwayError:
                if monotonic() > deadline:
                    raise
            time.sleep(_LOOK_SECONDS)

    def _store_now(self, works: Iterable[PartitionWork]) -> None:
        works = list(works)
        offsets = self._changed(works)
        if offsets:
            self._turns.store(self._store, offsets)
            for work in works:
                work.stored = offsets.get(work.partition, work.stored)

    def _changed(self, works: Collection[PartitionWork], *, leaving: bool = False) -> dict[TopicPartition, Stored]:
        found = {work.partition: work.to_store(leaving=leaving) for work in works}
        unanswered, unsettled = self._turns.unanswered, self._turns.unsettled  # what is not known is stored again
        return {
            work.partition: found[work.partition]
            for work in works
            if (found[work.partition] != work.stored or work.partition in unanswered)
            and work.partition not in unsettled
        }

    def _begin_at(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Begin partitions of ours again, elsewhere."""
        if not offsets:
            return
        for work in self.put_down(list(offsets)):
            del self.works[work.partition]
            self._add_up(work)
        self.new |= offsets.keys()  # if what follows fails, they begin where they are stored
        with self._turns.turn(_TURN_SECONDS) as ours:
            if not ours or self._turns.unsettled & offsets.keys():
                raise KafkaAwayError("A transaction takes too long; the offsets are as they were.")
            self._turns.store(self._store, offsets)
        self.begin()

    def _known(self, partition: TopicPartition, stored: Stored) -> Stored:
        """What is known to be done, of a partition that was lost and has come back: more than what is stored, perhaps.

        It was lost with Kafka away, for example, and nobody else has stored anything since.
        """
        work = self._lost.get(partition)
        return work.to_store(leaving=True) if work is not None and work.stored == stored else stored

    def _add_up(self, work: PartitionWork) -> None:
        self.gone.setdefault(work.partition.topic, MessageCounts()).add(work.counts)

    def _work(self, partition: TopicPartition, stored: Stored) -> PartitionWork:
        rules = self._subscription.rules(partition.topic, self._settings, self._begun_topics)
        work = PartitionWork(partition, stored, rules, monotonic())
        work.kept = self._here(partition, work.kept)
        return work

    def _here(self, partition: TopicPartition, kept: LastingFacts) -> LastingFacts:
        """With the topic that is there now."""
        found = self.topic_ids.get(partition.topic)
        return kept._replace(topic=letters(found)) if found else kept

    def _setting(self, partition: TopicPartition) -> WhenOffsetIsGone:
        """In the retry topic whatever lies there is to be done."""
        retry = partition.topic == self._subscription.retry_topic
        return WhenOffsetIsGone.EARLIEST if retry else self._settings.when_offset_is_gone

    def _started_again(self, stored: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, Start]:
        """Where what is stored is of another topic of the same name."""
        kept = {partition: decode(one).kept for partition, one in stored.items()}
        again = [
            partition for partition, one in kept.items() if one.topic and one.topic != self._here(partition, one).topic
        ]
        limits = self._client.limits(again) if again else {}
        found: dict[TopicPartition, Start] = {}
        for at in again:
            found[at] = go_on(at, stored[at], limits[at], self._setting(at), made_again=True)
            _LOGGER.error("%s", found[at].said)
        return found

    def _begun_topics(self) -> Collection[str] | None:
        """All that are there: whoever has their partitions has begun them.

        None where there is none, as far as is known, and Kafka does not tell topics from others: then one that has come
        since may be another member's, and nobody has heard of it.
        """
        there = {name for name, count in self._counted.items() if count} | {one.topic for one in self._begun_here}
        retry = self._subscription.retry_topic
        return ((there | self.topic_ids.keys()) - {retry}) or (() if retry in self.topic_ids else None)

    def _is_forgotten(self, partition: TopicPartition) -> bool:
        """Whether the group must have stored an offset, where it has none now."""
        if partition in self._begun_here:
            return True
        if partition.topic in self._read_before:
            return False  # it was added
        since = (begun for one, begun in self._begun_here.items() if one.topic == partition.topic)
        begun = min(since, default=monotonic())
        # before that it may be another member's that has died at its start
        return partition.topic in self._begun_before or monotonic() - begun > _SETTLED_SECONDS

    def _starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Start]:
        if not partitions:
            return {}
        limits = self._client.limits(partitions)
        by_time = self._settings.start_at is StartAt.TIMESTAMP
        at_time = self._client.offsets_at(partitions, self._start_ms) if by_time else {}
        found: dict[TopicPartition, Start] = {}
        for partition in partitions:
            first = partition.topic == self._subscription.retry_topic  # whatever lies there is to be done
            if not first and self._is_forgotten(partition):
                found[partition] = forgotten(partition, limits[partition], self._settings.when_offset_is_gone)
                _LOGGER.error("%s", found[partition].said)
                continue
            start_at = StartAt.FIRST if first else self._settings.start_at
            added = partition.topic in self._read_before or partition.partition >= self._counted.get(partition.topic, 0)
            found[partition] = start(partition, start_at, limits[partition], at_time.get(partition), added=added)
            _LOGGER.info("%s", found[partition].said)
        return found
