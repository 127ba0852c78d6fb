"""A Kafka in memory, for tests of what a consumer does with its answers: one member at a time, no rebalances.

What it lacks: other members, sessions, partitions that move, compaction, transactions that others see.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from checkback.consumer import ReceivedMessage, TopicPartition
from checkback.consumer.clients.base import (
    AT_ONCE,
    Connection,
    KafkaAwayError,
    Member,
    NewTopic,
    OffsetsGoneError,
    Rebalances,
)
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import SentBack
from checkback.exceptions import CheckbackError
from checkback.kafka.bounds import Bounds


@dataclass
class FakeKafka(Clients):
    """Logs and what a group has stored."""

    logs: dict[TopicPartition, list[ReceivedMessage]] = field(default_factory=dict)
    first: dict[TopicPartition, int] = field(default_factory=dict)
    stored_offsets: dict[TopicPartition, Stored] = field(default_factory=dict)
    stores: list[dict[TopicPartition, Stored]] = field(default_factory=list)
    written: list[SentBack] = field(default_factory=list)
    failures: list[CheckbackError] = field(default_factory=list)
    """Raised by the next transactions, one each."""
    committed_all_the_same: bool = False
    """Whether a transaction that fails was committed."""
    rebalances: "SimpleQueue[Callable[[Rebalances], None]]" = field(default_factory=SimpleQueue)
    """What happens within the next polls."""
    topics: dict[str, int] = field(default_factory=lambda: {"cb.later": 1})
    topic_ids: dict[str, str] = field(default_factory=dict)
    forgotten: int = 0
    """How often a client was told to forget topics."""
    """Of others nothing is said, as by old brokers."""
    limits_away: int = 0
    """So many times nobody says where partitions begin and end."""
    coordinator_hangs: bool = False
    """The next offsets that are stored outside a transaction are under way until it answers again; nothing else is."""
    under_way: dict[TopicPartition, Stored] | None = None
    outdated: bool = False
    """Whether a late request of the client may arrive, until it joins again."""

    def answer_again(self) -> None:
        """The coordinator does what it was told before."""
        self.stored_offsets.update(self.under_way or {})
        self.coordinator_hangs, self.under_way = False, None

    def write(self, topic: str, *values: bytes, key: bytes | None = None, partition: int = 0) -> None:
        """Messages at the end of a partition."""
        place = TopicPartition(topic, partition)
        log = self.logs.setdefault(place, [])
        self.topics[topic] = max(self.topics.get(topic, 0), partition + 1)
        for value in values:
            log.append(ReceivedMessage(topic, partition, len(log), key, value, [("cb-id", value)], 1_000 + len(log)))

    def consumer(self, connection: Connection) -> Any:
        return FakeClient(self)

    def sender(self, connection: Connection, transactional_id: str) -> Any:
        return FakeSender(self)

    def stored(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        return {place: self.stored_offsets[place] for place in partitions if place in self.stored_offsets}


class FakeClient:
    """A :class:`~checkback.consumer.clients.group_client.GroupClient`."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka
        self.positions: dict[TopicPartition, int] = {}
        self.paused = set[TopicPartition]()
        self.joined: Rebalances | None = None
        self.topics: Sequence[str] = ()

    @property
    def settled(self) -> bool:
        return not self.kafka.outdated

    @property
    def outdated(self) -> bool:
        return self.kafka.outdated

    def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
        self.joined = rebalances
        self.topics = topics
        rebalances.assigned(
            [TopicPartition(name, number) for name in topics for number in range(self.kafka.topics.get(name, 0))]
        )

    def poll(self, seconds: float, most: int = AT_ONCE) -> Mapping[TopicPartition, Sequence[ReceivedMessage]]:
        while self.joined is not None and not self.kafka.rebalances.empty():
            self.kafka.rebalances.get()(self.joined)
        found = {}
        for place, position in self.positions.items():
            if place in self.paused:  # of these nothing is asked
                continue
            log, first = self.kafka.logs.get(place, []), self.kafka.first.get(place, 0)
            if not first <= position <= len(log):
                raise OffsetsGoneError({place: position})
            if position < len(log) and most > 0:
                found[place] = log[position : position + most]
                most -= len(found[place])
        for place, messages in found.items():
            self.positions[place] += len(messages)
        if not found:
            time.sleep(min(seconds, 0.002))  # a client waits for messages: without that its thread takes a whole core
        return found

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions.update(positions)
        self.paused -= positions.keys()

    def pause(self, places: Collection[TopicPartition]) -> None:
        self.paused |= set(places)

    def resume(self, places: Collection[TopicPartition]) -> None:
        self.paused -= set(places)

    def stored(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        return {place: self.kafka.stored_offsets[place] for place in places if place in self.kafka.stored_offsets}

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        if self.kafka.coordinator_hangs:
            self.kafka.under_way = self.kafka.under_way or dict(offsets)
            raise KafkaAwayError("the coordinator does not answer")
        self.kafka.stores.append(dict(offsets))
        self.kafka.stored_offsets.update(offsets)

    def limits(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        if self.kafka.limits_away:
            self.kafka.limits_away -= 1
            raise KafkaAwayError("it does not say where partitions begin")
        return {place: Bounds(self.kafka.first.get(place, 0), len(self.kafka.logs.get(place, []))) for place in places}

    def offsets_at(self, places: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        return {
            place: sum(message.timestamp_ms < time_ms for message in self.kafka.logs.get(place, [])) for place in places
        }

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        return {name: self.kafka.topics[name] for name in topics if name in self.kafka.topics}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {name: self.kafka.topic_ids[name] for name in topics if name in self.kafka.topic_ids}

    def end_known(self, place: TopicPartition) -> int | None:
        return len(self.kafka.logs.get(place, []))

    def reads_next(self, place: TopicPartition) -> int | None:
        return self.positions.get(place)

    def make_topics(self, topics: Sequence[NewTopic]) -> list[str]:
        self.kafka.topics |= {topic.name: topic.partitions for topic in topics}
        return [topic.name for topic in topics]

    def members(self) -> list[Member]:
        return []

    def membership(self) -> object:
        return None

    def forget(self) -> None:
        assert self.joined
        self.kafka.forgotten += 1
        self.kafka.outdated = False
        self.positions.clear()
        self.join(self.topics, self.joined)

    def close(self) -> None:
        if self.joined is not None:
            joined, self.joined = self.joined, None
            offsets = joined.leaving(list(self.positions))
            if offsets:
                self.store(offsets)
            joined.left(list(self.positions))


class FakeSender:
    """A :class:`~checkback.consumer.clients.sender.Sender`."""

    spent = False

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka

    def take_log(self) -> None:
        pass

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        failure = self.kafka.failures.pop(0) if self.kafka.failures else None
        if failure is None or self.kafka.committed_all_the_same:
            self.kafka.written.extend(records)
            self.kafka.stored_offsets.update(offsets)
        if failure is not None:
            raise failure

    def close(self) -> None:
        pass
