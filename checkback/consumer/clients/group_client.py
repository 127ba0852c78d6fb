"""A member of a consumer group, or a consumer without a group."""

import contextlib
import logging
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID

from checkback.consumer.clients.base import (
    AT_ONCE,
    Connection,
    KafkaAwayError,
    Member,
    NewTopic,
    OffsetsGoneError,
    Rebalances,
    in_commits,
)
from checkback.consumer.clients.leaving import leave, leave_in_time
from checkback.consumer.clients.sender import Sender, to_kafka
from checkback.consumer.clients.translation import explained, ours, raise_first, received
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.exceptions import NotAllowedError
from checkback.kafka.bounded_calls import in_thread
from checkback.kafka.bounds import Bounds
from checkback.kafka.client_options import of_reaching, refuse_options
from checkback.kafka.librdkafka import FIXED, connected, make_client
from checkback.kafka.librdkafka.asked_bounds import asked_bounds
from checkback.kafka.librdkafka.connection_log import ConnectionLog
from checkback.kafka.librdkafka.errors import NOT_ALLOWED, error_code, is_fatal, result_of
from checkback.kafka.librdkafka.groups import members_of
from checkback.kafka.librdkafka.library import (
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from checkback.kafka.librdkafka.library import NewTopic as KafkaTopic
from checkback.kafka.librdkafka.library import (
    TopicPartition as KafkaTopicPartition,
)
from checkback.kafka.librdkafka.topics import hidden, topic_ids
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms
from checkback.wire.groups import metadata_of

_LOGGER = logging.getLogger(__name__)

_ANSWER_SECONDS = 5.0
STORE_SECONDS = 5.0
"""Longest wait until offsets are stored."""
LOST_SECONDS = 120.0
"""After that nothing of it is under way any more (requests wait 10 s by default): it is lost, and never comes back."""
_READ_AHEAD, _READ_AHEAD_KIB, _FETCH_BYTES = 2_000, 16_384, 262_144


class GroupClient:
    """A consumer, ``read_committed``. One thread uses it, but for :meth:`membership`.

    Raises:
        KafkaAwayError: from all methods, when it may go well later.
        CheckbackError: likewise, for what does not pass by itself.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        refuse_options(connection.options, FIXED, "a consumer")
        servers = {"bootstrap.servers": connection.bootstrap_servers}
        self._asking = {"log_level": 2, **of_reaching(connection.options), **servers}
        settings = {
            "fetch.wait.max.ms": 200,
            "heartbeat.interval.ms": 1_000,  # a member hears of a rebalance with its next one
            # what was read ahead is dropped when a partition is paused, and read again after it
            "queued.min.messages": _READ_AHEAD,
            "queued.max.messages.kbytes": _READ_AHEAD_KIB,
            "max.partition.fetch.bytes": _FETCH_BYTES,
            "fetch.queue.backoff.ms": 10,  # not 1,000, for which nothing is read once that has been read ahead
            "reconnect.backoff.max.ms": longest_pause_ms(connection.options, "reconnect.backoff.ms"),
            "topic.metadata.refresh.interval.ms": 60_000,
            "log_level": 2,
            **connection.options,
            **servers,
            "client.id": connection.client_id,
            # librdkafka wants a name also where there is no group: nothing is stored under it
            "group.id": connection.group or "checkback-broadcasting",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "partition.assignment.strategy": "cooperative-sticky",
            "on_commit": _committed,
        }
        self._settings = settings
        self._connect()
        connected(self._consumer, connection.bootstrap_servers, CONNECT_MS / 1000)
        self._joined: Callable[[], None] = lambda: None
        self._begun = set[TopicPartition]()
        self._gone: dict[TopicPartition, int | None] = {}
        self._read_to: dict[TopicPartition, int] = {}
        """Where partitions ended when they were last read to their end."""
        self._rebalanced = True
        self._membership: object = None
        self._storing: Future[Any] | None = None
        self._lost_at = 0.0
        self._acknowledged, self._unproven = True, False
        self._closed = False

    def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
        """Join the group. With it go rebalances, which are cooperative."""

        def assigned(consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
            self._rebalanced = True
            # begin() adds each by itself, with its offset: nothing is fetched before
            consumer.incremental_assign([])
            rebalances.assigned(ours(partitions))

        def revoked(consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
            leaving = ours(partitions)
            for piece in in_commits(rebalances.leaving(leaving)):
                # Not waited for: where the group is about to be shared out again, the answer comes only after this has
                # returned. It goes out before the join by which the partitions become somebody else's.
                consumer.commit(offsets=to_kafka(piece), asynchronous=True)
            self._end(leaving)
            rebalances.left(leaving)

        def lost(_: Consumer, partitions: list[KafkaTopicPartition]) -> None:
            self._end(ours(partitions))
            rebalances.lost(ours(partitions))

        def joined() -> None:
            self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=revoked, on_lost=lost)

        self._joined = joined
        with explained():
            joined()

    def poll(self, seconds: float, most: int = AT_ONCE) -> Mapping[TopicPartition, Sequence[ReceivedMessage]]:
        """Wait for messages for at most that long; gives ``most`` of them, or fewer.

        Raises:
            OffsetsGoneError: there are none where some partitions are read.
        """
        if self._gone:
            gone, self._gone = self._gone, {}
            raise OffsetsGoneError(gone)
        with explained():
            polled = self._consumer.consume(most, seconds)  # librdkafka hands over its log before any message
            self._prove_stores()
            if self._rebalanced:
                self._rebalanced = False
                # here and not when it is wanted: from another thread it was not answered any more, at times (2.16)
                self._membership = self._consumer.consumer_group_metadata()
        found: dict[TopicPartition, list[ReceivedMessage]] = {}
        for message in polled:
            error = message.error()
            if error is None:
                partition = TopicPartition(message.topic() or "", message.partition() or 0)
                found.setdefault(partition, []).append(received(message))
            else:
                self._failed(message, error)
        if self._gone and not found:
            return self.poll(0, most)
        return found

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from there on; assigned ones of the group, or any where there is no group."""
        with explained():
            # not seek(): what was fetched before would still come, and could not be told from what comes after
            self._end(positions.keys() & self._begun)
            added = [KafkaTopicPartition(one.topic, one.partition, offset) for one, offset in positions.items()]
            self._consumer.incremental_assign(added)
            self._begun |= positions.keys()
            self._consumer.resume(added)  # one that was ours before may have been paused then

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Read no further in these."""
        with explained():
            self._consumer.pause([KafkaTopicPartition(*one) for one in partitions if one in self._begun])

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Read on."""
        with explained():
            self._consumer.resume([KafkaTopicPartition(*one) for one in partitions if one in self._begun])

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What the group has stored, of those partitions for which it has."""
        with explained():
            try:
                asked = [KafkaTopicPartition(*one) for one in partitions]
                found = self._consumer.committed(asked, timeout=_ANSWER_SECONDS)
            except KafkaException:
                self.members()  # a group that is not allowed is looked for in vain, and that is all it says
                raise
            raise_first(found)
        kept = [one for one in found if one.offset >= 0]
        return {TopicPartition(one.topic, one.partition): Stored(one.offset, metadata_of(one)) for one in kept}

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Store offsets for the group, and wait until that is done.

        If its connection fails, librdkafka repeats the request. The first copy may arrive later: see :attr:`outdated`.
        """
        if self._storing is not None and not self._storing.done() and monotonic() < self._lost_at:
            raise KafkaAwayError("what was to be stored before is still under way")
        self._lost_at = monotonic() + LOST_SECONDS
        self._acknowledged, self._unproven = False, True
        pieces, consumer = [to_kafka(piece) for piece in in_commits(offsets)], self._consumer
        self._storing = in_thread(lambda: [consumer.commit(offsets=one, asynchronous=False) for one in pieces])
        try:
            with explained():
                for stored in self._storing.result(STORE_SECONDS):
                    raise_first(stored)
        except TimeoutError:
            raise KafkaAwayError(f"offsets were not stored within {STORE_SECONDS:.0f} s") from None
        self._acknowledged = True

    @property
    def settled(self) -> bool:
        """Whether no request to store offsets is under way, as far as the last :meth:`poll` has shown."""
        return not self._unproven and not self.outdated

    def limits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Where these partitions begin and end."""
        with explained():
            return {one: asked_bounds(self._consumer, KafkaTopicPartition(*one), _ANSWER_SECONDS) for one in partitions}

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Offset of the first message of this time or later; the end where there is none."""
        asked = [KafkaTopicPartition(one.topic, one.partition, max(time_ms, 0)) for one in partitions]
        with explained():
            found = self._consumer.offsets_for_times(asked, timeout=_ANSWER_SECONDS)
            raise_first(found)
        later = {TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}
        ends = self.limits([one for one in partitions if one not in later])
        return {one: later[one] if one in later else ends[one].end for one in partitions}

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each of these topics has, of those that exist."""
        with explained():
            known = self._consumer.list_topics(timeout=_ANSWER_SECONDS).topics
            unknown = [name for name in topics if name not in known]
            for name, error in hidden(self._asking, unknown, _ANSWER_SECONDS).items():
                raise NotAllowedError(f"{name}: {error!r}")
        return {name: len(known[name].partitions) for name in topics if name in known and known[name].error is None}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """What tells each of these topics from one of the same name that was made again, of those that exist.

        Brokers that give topics none say zero.
        """
        with explained():
            admin = make_client(AdminClient, self._asking)  # it ends, with its answers, when nobody holds it
            given = topic_ids(admin, topics)
        found = {name: UUID(bytes=b64decode(f"{one}==")) for name, one in given.items() if one}
        return {name: str(one) for name, one in found.items() if one.int}

    def end_known(self, partition: TopicPartition) -> int | None:
        """The end of a partition as it was last heard of, without asking."""
        if partition not in self._begun:
            return None
        with explained():
            _, end = self._consumer.get_watermark_offsets(KafkaTopicPartition(*partition), cached=True)
        return None if end < 0 else int(end)

    def reads_next(self, partition: TopicPartition) -> int | None:
        """Where a partition is read next, without asking; all messages before it were given by :meth:`poll`.

        It passes over the ends of transactions, which are not messages. None: not known.
        """
        return self._read_to.get(partition)

    def make_topics(self, topics: Sequence[NewTopic]) -> list[str]:
        """Make those that are missing; gives them."""
        made: list[str] = []
        if not topics:
            return made
        admin = make_client(AdminClient, self._asking)
        wanted = [KafkaTopic(topic.name, topic.partitions, config=dict(topic.configuration)) for topic in topics]
        with explained():
            for name, answer in admin.create_topics(wanted, operation_timeout=_ANSWER_SECONDS).items():
                try:
                    result_of(answer)
                    made.append(name)
                except KafkaException as error:
                    if error_code(error) in NOT_ALLOWED:
                        raise NotAllowedError(f"Create {name}: {error!r}") from error
                    if error_code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise
        return made

    def members(self) -> list[Member]:
        """Who is in the group now."""
        group = self._connection.group
        with explained():
            found = members_of(group, self._asking, _ANSWER_SECONDS)
        return [Member(member.client_id, member.host) for member in found]

    def membership(self) -> object:
        """What proves membership to a transaction; from any thread."""
        return self._membership

    def forget(self) -> None:
        """Leave the group, and join it as one that knows nothing. All partitions are put down, and stored, before.

        librdkafka remembers the leader epoch of a partition for as long as it lives. A topic that was made again has
        lower ones, which it takes for outdated: the partition stays without a leader, and nothing is read of it, until
        the broker has been restarted as often as before (2.16; redpanda-data/redpanda#30671 tells of its producer).
        """
        leave_in_time(partial(leave, self._consumer))
        self._connect()  # it connects by itself, also when Kafka is away now
        self._begun.clear()
        self._gone.clear()
        self._read_to.clear()
        with explained():
            self._joined()

    def close(self) -> None:
        """Leave the group, after :meth:`Rebalances.leaving`."""
        if self._closed:
            return
        self._closed = True
        leave_in_time(partial(leave, self._consumer))

    def _connect(self) -> None:
        self._connections = ConnectionLog(self._settings, "GroupCoordinator")
        self.outdated = False
        """Whether a late copy of an acknowledged store may move offsets back: Kafka takes it from a member it knows."""
        self._consumer: Consumer = make_client(Consumer, {**self._settings, **self._connections.settings()})

    def _prove_stores(self) -> None:
        if self._unproven and self._acknowledged:
            self._unproven = False
            self.outdated |= self._connections.lost
        if not self._unproven:
            self._connections.lost = False

    def _end(self, partitions: Collection[TopicPartition]) -> None:
        begun = [one for one in partitions if one in self._begun]
        self._begun.difference_update(begun)
        for partition in begun:
            self._read_to.pop(partition, None)
        # also when there is none: else the client would do so with all of them
        self._consumer.incremental_unassign([KafkaTopicPartition(*one) for one in begun])

    def _failed(self, message: Message, error: KafkaError) -> None:
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        if error.code() == KafkaError._PARTITION_EOF:
            self._read_to[partition] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._gone[partition] = message.offset() or 0
        elif error.code() in NOT_ALLOWED or is_fatal(error):
            with explained():
                raise KafkaException(error)
        else:  # a topic that is not there yet, a broker that is away: the client goes on by itself
            _LOGGER.debug("Kafka says: %s", error)


class Clients:
    """Makes a consumer's clients. Making one raises ConfigurationError, or KafkaAwayError."""

    def consumer(self, connection: Connection) -> GroupClient:
        """A consumer."""
        return GroupClient(connection)

    def sender(self, connection: Connection, transactional_id: str) -> Sender:
        """A transactional producer. Made, it has ended the last transaction of the one before it of this name."""
        with explained():
            return Sender(connection, transactional_id)

    def stored(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What a group has stored, asked by a client that is there for nothing else.

        The consumer's own may be waiting for the end of the very transaction that this is asked about.
        """
        with contextlib.closing(self.consumer(connection)) as client:
            return client.stored(partitions)


def _committed(error: KafkaError | None, partitions: Sequence[KafkaTopicPartition]) -> None:
    """What became of the offsets of partitions that were left."""
    failed = [one for one in partitions if one.error is not None or error is not None]
    if failed:
        names = ", ".join(f"{one.topic}-{one.partition}" for one in failed)
        _LOGGER.warning("%s are left without storing their offsets: %s", names, error or failed[0].error)
