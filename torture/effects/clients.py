"""A consumer's Kafka clients, with a watch that is told of each step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from checkback.consumer.clients.base import AT_ONCE, Connection, Rebalances
from checkback.consumer.clients.group_client import Clients, GroupClient
from checkback.consumer.clients.sender import Sender
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.metadata import Stored, decode
from torture.effects.steps import Step
from torture.effects.strike import Watch


class WatchedClients(Clients):
    """A consumer's own, watched."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def consumer(self, connection: Connection) -> GroupClient:
        """A consumer."""
        return cast("GroupClient", _WatchedClient(super().consumer(connection), self._watch))

    def sender(self, connection: Connection, transactional_id: str) -> Sender:
        """A transactional producer: a step of its transaction is a call of librdkafka's own producer."""
        sender = super().sender(connection, transactional_id)
        kafka: Any = sender._kafka  # noqa: SLF001  (the steps lie within send())
        kafka.producer = _WatchedProducer(kafka.producer, self._watch)
        return sender


class _WatchedClient:
    """All that is not here is the client's own."""

    def __init__(self, client: GroupClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
        self._client.join(topics, _WatchedRebalances(rebalances, self._watch))

    def poll(self, seconds: float, most: int = AT_ONCE) -> Mapping[TopicPartition, Sequence[ReceivedMessage]]:
        polled = self._client.poll(seconds, most)
        if polled:
            self._watch(Step.MESSAGES_READ)
        return polled

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        self._client.begin(positions)
        self._watch(Step.BEGUN)

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        closing = self._watch.closing
        self._watch(Step.CLOSING if closing else Step.STORING)
        self._watch.under_way(Step.STORE_UNDER_WAY)
        self._client.store(offsets)
        self._watch(Step.CLOSED if closing else Step.STORED)
        if any(decode(stored).endings.alone for stored in offsets.values()):
            self._watch(Step.BEGUN_ALONE)


class _WatchedRebalances:
    def __init__(self, rebalances: Rebalances, watch: Watch) -> None:
        self._rebalances = rebalances
        self._watch = watch

    def assigned(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._watch(Step.ASSIGNED)
        self._rebalances.assigned(places)

    def leaving(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, Stored]:
        if places:
            self._watch(Step.LEAVING)
        offsets = self._rebalances.leaving(places)
        if places:
            self._watch(Step.LEAVING_UNSTORED)
        return offsets

    def left(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._watch(Step.LEFT)
        self._rebalances.left(places)

    def lost(self, places: Collection[TopicPartition]) -> None:
        self._rebalances.lost(places)


class _WatchedProducer:
    """All that is not here is the producer's own."""

    def __init__(self, producer: Any, watch: Watch) -> None:
        self._producer = producer
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def begin_transaction(self) -> None:
        self._watch(Step.SENDING_BACK)
        self._producer.begin_transaction()

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self._watch(Step.RECORDS_WRITTEN)  # all of them are acknowledged
        self._producer.send_offsets_to_transaction(*arguments)
        self._watch(Step.OFFSETS_ADDED)

    def commit_transaction(self, *arguments: Any) -> None:
        self._watch.under_way(Step.COMMIT_UNDER_WAY)
        self._producer.commit_transaction(*arguments)
        self._watch(Step.SENT_BACK)
