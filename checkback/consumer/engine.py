"""A push consumer's parts, put together, and its threads."""

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from checkback.consumer.clients.base import Connection, KafkaAwayError, NewTopic
from checkback.consumer.clients.group_client import Clients, GroupClient
from checkback.consumer.fetching import FetchLoop
from checkback.consumer.listener import TopicPartition, refuse_no_place
from checkback.consumer.metrics import Figures, PartitionFigures
from checkback.consumer.offsets.counts import MessageCounts
from checkback.consumer.offsets.partitions import Partitions, Subscription
from checkback.consumer.offsets.storing import OffsetStore, StoringTurns
from checkback.consumer.offsets.work import Parcel
from checkback.consumer.retries.failed_parcels import FailedParcels, Timers
from checkback.consumer.retries.sending_back import SendingBack, SendingClients, SentBackParcel
from checkback.consumer.retry import OwnTopics
from checkback.consumer.settings import ConsumerSettings, Mode, Order
from checkback.consumer.tags import client_id, wants_otherwise
from checkback.consumer.workers import Workers
from checkback.exceptions import CheckbackError, ConfigurationError, ConsumerError, NotAllowedError
from checkback.kafka.reaching import no_kafka
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.protocol import Topics
from checkback.wire.rights import Whom, not_allowed, of_consumer

_LOGGER = logging.getLogger(__name__)
_CLIENT_ID = "checkback-consumer"
_ALL_OF_ANY_SIZE = {
    "cleanup.policy": "delete",  # compacted by a broker's default, they would keep one message of each key
    "compression.type": "producer",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "segment.bytes": str(1 << 30),
    "max.message.bytes": str(MOST_RECORD_BYTES),
}
_FOR_EVER = {"retention.ms": "-1"}
_FOR_A_TIME = {"retention.ms": str(14 * 24 * 3_600_000)}
"""Of a message that is to be tried again: far longer than a group stands still."""
_KNOWN_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_MAKE_TOPICS_SECONDS = 60.0
"""Between two looks whether the group's own topics are still there."""


@dataclass(frozen=True)
class Given:
    """What an application says of a consumer, but for its listener."""

    bootstrap_servers: str
    group: str
    subscription: Subscription
    settings: ConsumerSettings
    topics: Topics = field(default_factory=Topics)
    kafka_options: Mapping[str, Any] = field(default_factory=dict)
    clients: Clients | None = None
    """Somebody's own; None: ours."""

    @property
    def clustering(self) -> bool:
        """Whether it shares its topics with the others of its group."""
        return self.settings.mode is Mode.CLUSTERING

    @property
    def own_topics(self) -> OwnTopics:
        """The group's topics; raises ConfigurationError when they cannot be named after it."""
        return OwnTopics.of(self.topics, self.group)

    @property
    def connection(self) -> Connection:
        """How its clients reach Kafka."""
        ours = f"{_CLIENT_ID}-{platform.node()}-{os.getpid()}"  # tells the members of a group apart, at the brokers
        options = dict(self.kafka_options)
        name = str(options.pop("client.id", ours))
        group = self.group if self.clustering else ""
        return Connection(self.bootstrap_servers, group, client_id(name, self.subscription.topics), options)


class Engine:
    """Runs from :meth:`start` until :meth:`stop`, or until something fails that does not pass by itself."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._failure: CheckbackError | None = None
        self._stopping = threading.Event()
        self._stop_sending = threading.Event()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._look_at_members = threading.Event()
        self._workers: Workers
        self._client: GroupClient
        self._partitions: Partitions
        self._loop: FetchLoop
        self._failed: FailedParcels
        self._sending: SendingBack | None = None
        self._store: OffsetStore

    def start(self, workers: Workers) -> None:
        """Connect, and begin to read.

        Raises:
            ConfigurationError: Kafka does not answer, lacks a topic that is needed, or does not allow one.
        """
        given, settings = self._given, self._given.settings
        self._workers = workers
        clients = given.clients or Clients()
        store = None if given.clustering else self._offset_file()
        self._client = clients.consumer(given.connection)
        self._store = store or self._client
        try:
            turns, timers, has_run = StoringTurns(), Timers(), False
            self._partitions = Partitions(self._client, self._store, turns, given.subscription, settings)
            self._failed = FailedParcels(settings, timers, self._send_back)
            if given.clustering:
                has_run = self._make_topics(self._client)
                self._partitions.on_begun = self._make_dead_topic
                self._sending = self._sending_back(clients, turns)
            self._loop = FetchLoop(self._client, self._partitions, workers, self.failed, timers, settings)
            missing = self._partitions.count_partitions(has_run=has_run)
            self._loop.topics_are(self._client.topic_ids(given.subscription.names))
            if missing:
                _LOGGER.warning("Kafka has no topic %s yet; it is read as soon as it is there", ", ".join(missing))
            if given.clustering:
                self._partitions.on_assigned = self._look_at_members.set
                self._client.join(given.subscription.names, self._partitions)
            else:
                self._partitions.read_all()
        except KafkaAwayError as error:
            self._close_clients()
            raise no_kafka(given.bootstrap_servers, error) from error
        except NotAllowedError as error:
            self._close_clients()
            raise self._named(error) from error
        except BaseException:
            self._close_clients()
            raise
        self._begin_threads(clients)
        _LOGGER.info("Group %s reads %s (%s)", given.group, ", ".join(given.subscription.topics), settings.mode)

    def ended(self, parcel: Parcel, success: bool) -> None:  # noqa: FBT001  (what a listener has said)
        """The listener has ended; from any thread."""
        if success:
            self._go_on(parcel.work.succeeded(parcel))
        elif parcel.work.put_down(parcel):
            self.failed(parcel)

    def failed(self, parcel: Parcel) -> None:
        """The listener has said *later*, or nothing in time; from any thread."""
        self._go_on(self._failed.failed(parcel))

    def reset(self, offsets: Mapping[TopicPartition, int]) -> "Future[Mapping[TopicPartition, tuple[int, int]]]":
        """See :meth:`PushConsumer.reset`."""
        if not self._threads:
            raise ConfigurationError("The consumer has not been started.")
        return self._loop.reset(_lawful(offsets))

    def figures(self) -> Figures:
        """What has been done, and how far it is behind."""
        if not self._threads:
            return Figures(self._given.group)
        topics = {topic: MessageCounts(**vars(counts)) for topic, counts in list(self._partitions.gone.items())}
        partitions = []
        for work in list(self._partitions.works.values()):
            topics.setdefault(work.partition.topic, MessageCounts()).add(work.counts)
            position, span, held = work.progress()
            end = self._loop.ends.get(work.partition)
            lag = None if end is None else max(0, end - position)
            partitions.append(PartitionFigures(work.partition, position, lag, span, held))
        return Figures(self._given.group, sorted(partitions), topics)

    def raise_if_dead(self) -> None:
        """Raise what ended it, if anything did."""
        if self._failure is not None:
            raise self._failure

    def wait(self, seconds: float | None) -> bool:
        """Wait until it has ended; ``False``: not yet."""
        return self._ended.wait(seconds)

    def stop_soon(self) -> None:
        """Have it end without waiting for that: one that is being started calls no listener any more."""
        self._stopping.set()

    def stop(self, seconds: float) -> None:
        """Leave the group, and end."""
        self.stop_soon()
        if not self._threads:  # it has failed to start: there is nobody to say that it has ended
            return
        deadline = monotonic() + seconds
        self._ended.wait(seconds)
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _begin_threads(self, clients: Clients) -> None:
        works: list[tuple[str, Callable[[], None]]] = [("fetch", self._fetch)]
        if self._sending is not None:
            sending = self._sending
            works += [
                ("send-back", lambda: sending.run(self._stop_sending)),
                ("members", lambda: self._watch_group(clients)),
            ]
        for name, work in works:
            thread = threading.Thread(target=self._guard, args=(work,), name=f"checkback-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  (a thread that ends in silence helps nobody)
            failure = (
                self._named(error)
                if isinstance(error, CheckbackError)
                else ConsumerError(f"The consumer failed: {error!r}.")
            )
            failure.__cause__ = None if failure is error else error
            self._failure = self._failure or failure
            _LOGGER.error("The consumer of group %s has ended: %s", self._given.group, failure)  # noqa: TRY400  (its cause is raised to whoever asks)
            self._stopping.set()

    def _fetch(self) -> None:
        try:
            self._guard(lambda: self._loop.run(self._stopping))
        finally:
            self._guard(self._leave)
            self._ended.set()

    def _leave(self) -> None:
        """What is in hand may end, and is stored; only then do those stop who see to that."""
        try:
            self._loop.leave()
        finally:
            self._stop_sending.set()
            self._look_at_members.set()
            self._workers.stop(self._given.settings.finish_wait)
            self._close_clients()

    def _close_clients(self) -> None:
        self._stop_sending.set()
        if self._sending is not None:
            self._sending.close()
        self._client.close()
        close = getattr(self._store, "close", None)
        if close is not None:
            close()

    def _go_on(self, parcel: Parcel | None) -> None:
        if parcel is not None:
            self._workers.put([parcel])

    def _send_back(self, parcel: Parcel) -> None:
        if self._sending is not None:
            self._sending.give(parcel)

    def _sent(self, sent: SentBackParcel) -> None:
        parcel = sent.parcel
        parcel.work.count(retried=sent.retried, dead=sent.dead)
        for offset, message in zip(parcel.offsets, parcel.messages, strict=True):
            reason, group = parcel.reasons.get(offset), self._given.group
            if reason:
                first = f"{message.topic}:{message.partition}:{message.offset}"
                told = f"see it with 'checkback dlq list --group {group}'"
                _LOGGER.error("%s (%s) is a dead letter of group %s: %s; %s", message.id, first, group, reason, told)
        self._go_on(parcel.work.ended(parcel))

    def _sending_back(self, clients: Clients, turns: StoringTurns) -> SendingBack:
        given = self._given
        # not as the job's names begin: ACLs go by that
        name = f"{given.topics.prefix}consumer.{given.group}.{os.urandom(8).hex()}"
        sending_clients = SendingClients(
            lambda: clients.sender(given.connection, name),
            self._client.membership,
            lambda partitions: clients.stored(given.connection, partitions),
            lambda: self._make_topics_again(clients),
            self._named,
        )
        return SendingBack(
            sending_clients,
            given.own_topics,
            given.settings,
            self._sent,
            self._failed.not_sent,
            turns,
        )

    def _named(self, error: CheckbackError) -> CheckbackError:
        """With the rights that are lacking, where Kafka does not allow something."""
        if not isinstance(error, NotAllowedError):
            return error
        given = self._given
        whom = Whom(given.topics, given.group, tuple(given.subscription.names))
        return not_allowed("the consumer", error, tuple(of_consumer(whom)))

    def _make_topics_again(self, clients: Clients, *, watch: bool = False) -> None:
        """By a client of its own: the consumer's is the fetch loop's. ``watch``: look at those that are read, too."""
        with closing(clients.consumer(self._given.connection)) as client:
            self._make_topics(client)
            self._make(client, [self._dead_topic])
            if watch:
                self._loop.topics_are(client.topic_ids(self._given.subscription.names))

    def _make_topics(self, client: GroupClient) -> bool:
        """Make what is needed to begin; gives whether the group has run before, see :meth:`_make_dead_topic`."""
        own, settings = self._given.own_topics, self._given.settings
        there = client.partitions([own.later, own.dead])
        if settings.order is Order.NONE and settings.max_reconsume_times and own.later not in there:
            raise ConfigurationError(
                f"Kafka has no topic {own.later}, by which failed messages are tried again: run 'checkback topics "
                "create' first."
            )
        self._make(client, [NewTopic(own.retry, settings.retry_partitions, _ALL_OF_ANY_SIZE | _FOR_A_TIME)])
        return own.dead in there

    def _make_dead_topic(self) -> None:
        """Not before offsets are stored: a group that has this topic, and no offsets, has lost them."""
        self._make(self._client, [self._dead_topic])
        self._partitions.on_begun = lambda: None

    @property
    def _dead_topic(self) -> NewTopic:
        return NewTopic(self._given.own_topics.dead, 1, _ALL_OF_ANY_SIZE | _FOR_EVER)

    def _make(self, client: GroupClient, wanted: Sequence[NewTopic]) -> None:
        there = client.partitions([topic.name for topic in wanted])
        made = client.make_topics([topic for topic in wanted if topic.name not in there])
        if made:
            _LOGGER.info("Made the topics %s", ", ".join(made))
            _wait_for_topics(client, made)

    def _offset_file(self) -> OffsetStore:
        from checkback.consumer.offsets.offset_file import OffsetFile, default_file  # noqa: PLC0415  (not on every system)

        return OffsetFile(Path(self._given.settings.offset_file or default_file(self._given.group)))

    def _watch_group(self, clients: Clients) -> None:
        """After each rebalance its members, and at times its own topics."""
        make_topics_at = monotonic() + _MAKE_TOPICS_SECONDS
        while True:
            rebalanced = self._look_at_members.wait(max(0.0, make_topics_at - monotonic()))
            if self._stopping.is_set():
                return
            if rebalanced:
                self._look_at_members.clear()
                self._watch_members()
            if monotonic() >= make_topics_at:
                make_topics_at = monotonic() + _MAKE_TOPICS_SECONDS
                try:
                    self._make_topics_again(clients, watch=True)
                except CheckbackError as error:
                    _LOGGER.warning(
                        "Whether the topics of group %s are there is not known: %s",
                        *(self._given.group, self._named(error)),
                    )

    def _watch_members(self) -> None:
        """Does anybody in the group want something else of a topic?"""
        try:
            members = self._client.members()
        except CheckbackError as error:
            _LOGGER.debug("The group's members are not known: %s", error)
            return
        for member, topic in wants_otherwise(members, self._given.subscription.topics):
            _LOGGER.error(
                "Another consumer of group %s (%s at %s) wants other tags of %s than %s: whose messages come here "
                "and are not wanted are lost to it. All of a group must have the same tags.",
                *(self._given.group, member.client_id, member.host, topic, self._given.subscription.topics[topic]),
            )


def _lawful(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Raises ConfigurationError where Kafka can have no such partition or offset."""
    try:
        found = {TopicPartition(*one): offset for one, offset in offsets.items()}
    except (AttributeError, TypeError):
        told = f'reset() takes offsets by partition, {{TopicPartition("orders", 0): 812}}, not {offsets!r:.100}.'
        raise ConfigurationError(told) from None
    for partition, offset in found.items():
        refuse_no_place(partition.partition, offset)
    return found


def _wait_for_topics(client: GroupClient, names: Sequence[str]) -> None:
    """A topic is not known at once; who joins before reads nothing of it until he asks again, a minute later."""
    deadline = monotonic() + _KNOWN_SECONDS
    while len(client.partitions(names)) < len(names) and monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
