"""Consumer groups as the brokers know them: offsets, members, and setting a group's offsets while it has none."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from checkback.consumer.listener import TopicPartition
from checkback.consumer.resetting.reset_plan import Goal, PartitionOffsets, Target
from checkback.exceptions import KafkaUnreachableError, OperatorError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import refused
from checkback.kafka.kafka_python.library import (
    CommitFailedError,
    KafkaConsumer,
    KafkaError,
    OffsetAndMetadata,
    RangePartitionAssignor,
    RebalanceInProgressError,
)
from checkback.kafka.kafka_python.library import TopicPartition as KafkaTopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.kafka_python.repairs import GroupAdmin
from checkback.kafka.topic_reading import reading_consumer

T = TypeVar("T")
_ANSWER_SECONDS = 15.0
_AGAIN_SECONDS = 0.2
_NONE_STORED = -1
_POLL_MS = 100
_SESSION_MS = 10_000


class GroupMember(NamedTuple):
    """A consumer of a group, as the brokers know it."""

    client_id: str
    host: str
    partitions: frozenset[TopicPartition]
    """Partitions that it has."""


class GroupClients:
    """The clients of kafka-python that ask brokers about groups; use it as a context manager.

    Args:
        bootstrap_servers: Kafka's ``host:port``, several with commas.
        options: further settings of kafka-python's clients.

    Raises:
        KafkaUnreachableError: no Kafka answers.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any] | None = None) -> None:
        self.consumer: KafkaConsumer = reading_consumer(bootstrap_servers, options=options)
        """Without a group, ``read_committed``."""
        client = {"bootstrap_servers": bootstrap_servers}
        self.admin = make_client(GroupAdmin, client, options, SHARED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.admin.close()
        self.consumer.close()


class GroupOffsets(GroupClients):
    """Asks the brokers about one group; use it as a context manager.

    Args:
        bootstrap_servers: Kafka's ``host:port``, several with commas.
        group: the consumer group.
        options: further settings of kafka-python's clients.

    Raises:
        KafkaUnreachableError: no Kafka answers.
    """

    def __init__(self, bootstrap_servers: str, group: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(bootstrap_servers, options)
        self._servers, self._options = bootstrap_servers, options
        self._group = group

    def stored(self) -> dict[TopicPartition, int]:
        """Every offset that the group has stored."""
        found = answered(lambda: self.admin.list_group_offsets({self._group: None}))
        return stored_in(found[self._group])

    def members(self) -> list[GroupMember]:
        """Who is in the group now; none also where it uses Kafka's newer protocol, of which this client cannot ask."""
        found = answered(lambda: self.admin.describe_groups([self._group]))[self._group]
        return [_member(one) for one in found["members"]]

    def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions.

        Raises:
            OperatorError: Kafka has no such topic.
        """
        found = answered(lambda: self.consumer.partitions_for_topic(topic))
        if not found:
            raise OperatorError(f"Kafka has no topic {topic}.")
        return sorted(found)

    def offsets(
        self, partitions: Collection[TopicPartition], target: Target | None = None
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Where partitions begin and end, where the group is, and which offset a target's time has."""
        asked = {one: KafkaTopicPartition(*one) for one in partitions}
        minimum = answered(lambda: self.consumer.beginning_offsets(list(asked.values())))
        maximum = answered(lambda: self.consumer.end_offsets(list(asked.values())))
        at_time: Mapping[KafkaTopicPartition, Any] = {}
        if target is not None and target.goal is Goal.TIME:
            at_time = answered(lambda: self.consumer.offsets_for_times(dict.fromkeys(asked.values(), target.number)))
        stored = self.stored()
        found = {}
        for partition, at in asked.items():
            timed = at_time.get(at)
            at_offset = None if timed is None else timed.offset
            found[partition] = PartitionOffsets(
                partition.partition, minimum[at], maximum[at], stored.get(partition), at_offset
            )
        return found

    def set(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Store offsets as a member of an empty group; False: it has others, and Kafka takes it from them only.

        Kafka rejects a copy of the request that a lost connection delayed: its member has left.

        Raises:
            KafkaError: Kafka does not take them.
        """
        listed = answered(self.admin.list_groups)  # also groups of the newer protocol; old brokers name no state
        if any(one["group_id"] == self._group and one["group_state"] not in {"Empty", "Dead", ""} for one in listed):
            return False
        wanted = {KafkaTopicPartition(*one): OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()}
        ours = {
            "bootstrap_servers": self._servers,
            "group_id": self._group,
            "session_timeout_ms": _SESSION_MS,
            "enable_auto_commit": False,
            "partition_assignment_strategy": (_CooperativeByName, RangePartitionAssignor),
        }
        with closing(make_client(KafkaConsumer, ours, self._options, SHARED)) as member:
            member.subscribe(sorted({one.topic for one in offsets}))
            until = monotonic() + _ANSWER_SECONDS
            while not member.assignment() and monotonic() < until:
                answered(lambda: poll(member, _POLL_MS))
            if wanted.keys() <= member.assignment():
                with suppress(CommitFailedError, RebalanceInProgressError):  # another consumer joined meanwhile
                    member.commit(wanted)  # repeats by itself
                    return True
        return False


class _CooperativeByName(RangePartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """For consumers of Checkback that join meanwhile: Kafka rejects one that shares no protocol with all members."""

    name = "cooperative-sticky"


def stored_in(answer: Mapping[KafkaTopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    """The offsets in an answer of kafka-python's ``list_group_offsets``."""
    return {
        TopicPartition(one.topic, one.partition): stored.offset
        for one, stored in answer.items()
        if stored.offset != _NONE_STORED
    }


def _member(said: Mapping[str, Any]) -> GroupMember:
    partitions = set()
    assignment = said["member_assignment"]
    if isinstance(assignment, Mapping):  # in a group of other clients than consumers it is anything
        for topic in assignment.get("assigned_partitions", ()):
            partitions |= {TopicPartition(topic["topic"], number) for number in topic["partitions"]}
    return GroupMember(said["client_id"], said["client_host"].removeprefix("/"), frozenset(partitions))


def answered(ask: Callable[[], T]) -> T:
    """The answer, asked for again while Kafka is busy with itself: with its first group it makes a topic first.

    Raises:
        KafkaUnreachableError: there is none, for 15 s.
        NotAllowedError: Kafka does not let this user ask.
    """
    until = monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return ask()
        except KafkaError as error:
            not_allowed = refused(error)
            if not_allowed is not None:
                raise not_allowed from error
            if not error.retriable or monotonic() > until:
                raise KafkaUnreachableError(f"Kafka does not answer: {error}.") from error
        time.sleep(_AGAIN_SECONDS)
