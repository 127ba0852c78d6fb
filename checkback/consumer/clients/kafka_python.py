"""A consumer's clients on kafka-python."""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from checkback.consumer.clients.base import (
    AT_ONCE,
    Connection,
    GroupClient,
    KafkaAwayError,
    Member,
    NewTopic,
    OffsetsGoneError,
    RebalanceInProgressError,
    Rebalances,
    Sender,
    in_commits,
    known_ids,
)
from checkback.consumer.clients.kafka_python_sender import KafkaPythonSender, to_kafka
from checkback.consumer.clients.leaving import leave_in_time
from checkback.consumer.listener import ReceivedMessage, TopicPartition, UnreadableMessage
from checkback.consumer.offsets.metadata import Stored
from checkback.exceptions import CheckbackError, ConsumerError, NotAllowedError
from checkback.kafka.bounds import Bounds
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import REBALANCING, passes
from checkback.kafka.kafka_python.library import (
    AsyncConsumerRebalanceListener,
    AuthorizationError,
    CooperativeStickyAssignor,
    KafkaConsumer,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from checkback.kafka.kafka_python.library import (
    TopicPartition as KafkaTopicPartition,
)
from checkback.kafka.kafka_python.polling import EscapedHeaders, poll
from checkback.kafka.kafka_python.repairs import GroupAdmin, begin_anew_when_lost, free_parked
from checkback.wire.beside_offsets import without_end

_LOGGER = logging.getLogger(__name__)
_ANSWER_MS = 5_000
_HEARTBEAT_MS = 1_000  # a member hears of a rebalance with its next one
_FETCH_WAIT_MS = 200
_FIXED: Mapping[str, tuple[object, ...]] = {
    "auto_offset_reset": ("none",),
    "enable_auto_commit": (False,),
    "isolation_level": ("read_committed",),
    # a listener gets bytes, and what is sent back is what came
    **dict.fromkeys(("key_deserializer", "value_deserializer"), (None,)),
    **dict.fromkeys(("bootstrap_servers", "group_id", "partition_assignment_strategy"), ()),
}
"""What is promised of consumers."""


class KafkaPythonClients:
    """See :class:`~checkback.consumer.clients.base.Clients`."""

    def consumer(self, connection: Connection) -> GroupClient:
        """See :class:`~checkback.consumer.clients.base.Clients`."""
        return KafkaPythonClient(connection)

    def sender(self, connection: Connection, transactional_id: str) -> Sender:
        """See :class:`~checkback.consumer.clients.base.Clients`."""
        with explained():
            return KafkaPythonSender(connection, transactional_id)

    def stored(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """See :class:`~checkback.consumer.clients.base.Clients`."""
        with contextlib.closing(KafkaPythonClient(connection)) as client:
            return client.stored(partitions)


class KafkaPythonClient:
    """See :class:`~checkback.consumer.clients.base.GroupClient`."""

    remembers_topics = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owned = set[TopicPartition]()
        self._closed = False
        settings = {
            "fetch_max_wait_ms": _FETCH_WAIT_MS,
            "heartbeat_interval_ms": _HEARTBEAT_MS,
            "metrics_enabled": False,
            "metadata_max_age_ms": 60_000,
            "max_poll_records": AT_ONCE,
            "bootstrap_servers": connection.bootstrap_servers,
            "client_id": connection.client_id,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "partition_assignment_strategy": [CooperativeStickyAssignor],
            "group_id": connection.group or None,
        }
        # members are told apart by their name, which is ours
        options = {name: value for name, value in connection.options.items() if name != "client_id"}
        self._consumer = make_client(KafkaConsumer, settings, options, _FIXED, whose="a consumer")
        begin_anew_when_lost(self._consumer)

    def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        with explained():
            self._consumer.subscribe(list(topics), listener=_Listener(self._consumer, rebalances))

    def poll(self, seconds: float, most: int = AT_ONCE) -> Mapping[TopicPartition, Sequence[ReceivedMessage]]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        free_parked(self._consumer)
        try:
            with explained():
                polled = poll(self._consumer, int(seconds * 1000), min(most, self._consumer.config["max_poll_records"]))
        except NoOffsetForPartitionError:  # of one that was assigned this moment
            return {}
        return {
            TopicPartition(*partition): [received(record) for record in records]
            for partition, records in polled.items()
        }

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        with explained():
            if not self._connection.group:
                self._owned |= positions.keys()
                self._consumer.assign([KafkaTopicPartition(*one) for one in self._owned])
            for partition, offset in positions.items():
                self._consumer.seek(KafkaTopicPartition(*partition), offset)
            self._consumer.resume(*(KafkaTopicPartition(*one) for one in positions))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        self._consumer.pause(*self._assigned(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        self._consumer.resume(*self._assigned(partitions))

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        found = {}
        for partition in partitions:
            with explained():
                stored = self._consumer.committed(KafkaTopicPartition(*partition), metadata=True, timeout_ms=_ANSWER_MS)
            if stored is not None and stored.offset >= 0:
                found[partition] = Stored(stored.offset, without_end(stored.metadata))
        return found

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        with explained():
            for piece in in_commits(offsets):
                self._consumer.commit(to_kafka(piece), timeout_ms=_ANSWER_MS)

    def limits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        asked = [KafkaTopicPartition(*one) for one in partitions]
        with explained():
            first = self._consumer.beginning_offsets(asked, timeout_ms=_ANSWER_MS)
            end = self._consumer.end_offsets(asked, timeout_ms=_ANSWER_MS)
        return {one: Bounds(first[one], end[one]) for one in partitions}

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        asked = {KafkaTopicPartition(*one): max(time_ms, 0) for one in partitions}
        with explained():
            found = self._consumer.offsets_for_times(asked, timeout_ms=_ANSWER_MS)
            later = {partition: one.offset for partition, one in found.items() if one is not None}
            missing = [one for one in asked if one not in later]
            ends = self._consumer.end_offsets(missing, timeout_ms=_ANSWER_MS) if missing else {}
        return {one: later[one] if one in later else ends[one] for one in partitions}

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        return {topic["name"]: len(topic["partitions"]) for topic in self._described(topics)}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        return known_ids({topic["name"]: UUID(str(topic["topic_id"])) for topic in self._described(topics)})

    def end_known(self, partition: TopicPartition) -> int | None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        asked = KafkaTopicPartition(*partition)
        if asked not in self._consumer.assignment():
            return None
        end = self._consumer.highwater(asked)
        return None if end is None else int(end)

    def reads_next(self, partition: TopicPartition) -> int | None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        asked = KafkaTopicPartition(*partition)
        if asked not in self._consumer.assignment():
            return None
        with explained():
            position = self._consumer.position(asked, timeout_ms=0)
        return None if position is None else int(position)

    def make_topics(self, topics: Sequence[NewTopic]) -> list[str]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        made = []
        with explained(), contextlib.closing(self._admin()) as admin:
            for topic in topics:
                wanted = {"num_partitions": topic.partitions, "configs": dict(topic.configuration)}
                try:
                    admin.create_topics({topic.name: wanted})
                except TopicAlreadyExistsError:
                    continue
                except AuthorizationError as error:
                    raise NotAllowedError(f"Create {topic.name}: {error!r}") from error
                made.append(topic.name)
        return made

    def members(self) -> list[Member]:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        with explained(), contextlib.closing(self._admin()) as admin:
            described = admin.describe_groups([self._connection.group])
        members = described[self._connection.group]["members"]
        return [Member(member["client_id"], member["client_host"]) for member in members]

    def membership(self) -> object:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        membership = self._consumer.group_metadata()
        if membership.generation_id < 0 or not membership.member_id:
            raise KafkaAwayError("the consumer is not a member of its group at this moment")
        return membership

    def forget(self) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`. There is nothing that has to be."""

    def close(self) -> None:
        """See :class:`~checkback.consumer.clients.base.GroupClient`."""
        if not self._closed:
            self._closed = True
            leave_in_time(self._leave)

    def _leave(self) -> None:
        with contextlib.suppress(KafkaError, OSError):
            self._consumer.close(autocommit=False, timeout_ms=_ANSWER_MS)

    def _assigned(self, partitions: Collection[TopicPartition]) -> list[KafkaTopicPartition]:
        """Those of them that are ours at this moment: one may have been lost since it was looked at."""
        assignment = self._consumer.assignment()
        return [KafkaTopicPartition(*one) for one in partitions if one in assignment]

    def _described(self, topics: Collection[str]) -> list[Any]:
        with explained(), contextlib.closing(self._admin()) as admin:
            found = admin.describe_topics(list(topics))
        hidden = [topic["name"] for topic in found if topic["error_code"] == TopicAuthorizationFailedError.errno]
        if hidden:
            raise NotAllowedError(repr(TopicAuthorizationFailedError(hidden)))
        return [topic for topic in found if not topic["error_code"]]

    def _admin(self) -> Any:
        servers = {"bootstrap_servers": self._connection.bootstrap_servers}
        return make_client(GroupAdmin, servers, self._connection.options, SHARED)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Runs on the client's own thread, which must not wait for itself: so it stores by awaiting."""

    def __init__(self, consumer: Any, rebalances: Rebalances) -> None:
        self._consumer = consumer
        self._rebalances = rebalances

    async def on_partitions_assigned(self, assigned: Collection[KafkaTopicPartition]) -> None:
        for partition in assigned:
            self._consumer.seek(partition, 0)  # any position will do: without one it would ask for the stored one
        self._consumer.pause(*assigned)
        self._rebalances.assigned(_places(assigned))

    async def on_partitions_revoked(self, revoked: Collection[KafkaTopicPartition]) -> None:
        partitions = _places(revoked)
        for piece in in_commits(self._rebalances.leaving(partitions)):
            try:
                await self._consumer.commit_async(to_kafka(piece))
            except KafkaError as error:
                _LOGGER.warning("%s are left without storing their offsets: %r", ", ".join(map(str, partitions)), error)
        self._rebalances.left(partitions)

    async def on_partitions_lost(self, lost: Collection[KafkaTopicPartition]) -> None:
        self._rebalances.lost(_places(lost))


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Errors of kafka-python as ours."""
    try:
        yield
    except OffsetOutOfRangeError as error:
        raise OffsetsGoneError({TopicPartition(*one): offset for one, offset in error.args[0].items()}) from error
    except LogTruncationError as error:  # what was read is not what the log has
        found = error.divergent_offsets.items()
        raise OffsetsGoneError(
            {TopicPartition(*one): None if end is None else end.offset for one, end in found}
        ) from error
    except NoOffsetForPartitionError:
        raise
    except AuthorizationError as error:
        raise NotAllowedError(repr(error)) from error
    except (KafkaError, OSError) as error:
        if isinstance(error, REBALANCING):
            raise RebalanceInProgressError(repr(error)) from error
        if passes(error):
            raise KafkaAwayError(repr(error)) from error
        raise ConsumerError(f"The consumer failed: {error!r}.") from error
    except CheckbackError:
        raise


def _places(partitions: Collection[KafkaTopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(*one) for one in partitions]


def received(record: Any) -> ReceivedMessage:
    """A record that :func:`checkback.kafka.kafka_python.polling.poll` has given."""
    kind = UnreadableMessage if type(record.headers) is EscapedHeaders else ReceivedMessage
    return kind(
        *(record.topic, record.partition, record.offset, record.key, record.value, record.headers, record.timestamp)
    )
