"""A consumer's Kafka clients, with a watch that is told of each step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from checkback.consumer.clients.base import AT_ONCE, Clients, Connection, GroupClient, Rebalances, Sender
from checkback.consumer.clients.kafka_python_sender import KafkaPythonSender
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.metadata import Stored, decode
from torture.effects.steps import Step
from torture.effects.strike import Watch


class WatchedClients:
    """Those of a library (:class:`~checkback.consumer.clients.base.Clients`), watched."""

    def __init__(self, clients: Clients, watch: Watch) -> None:
        self._clients = clients
        self._watch = watch

    def consumer(self, connection: Connection) -> GroupClient:
        """A consumer."""
        return cast("GroupClient", _WatchedClient(self._clients.consumer(connection), self._watch))

    def sender(self, connection: Connection, transactional_id: str) -> Sender:
        """A transactional producer: a step of its transaction is a call of its library's own producer."""
        sender: Any = self._clients.sender(connection, transactional_id)
        # the steps lie within send()
        if isinstance(sender, KafkaPythonSender):
            sender._producer = _WatchedProducer(sender._producer, self._watch)  # noqa: SLF001  (see above)
        else:
            kafka = sender._kafka  # noqa: SLF001  (likewise)
            kafka.producer = _WatchedProducer(kafka.producer, self._watch)
        return cast("Sender", sender)

    def stored(self, connection: Connection, places: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What the group has stored."""
        return self._clients.stored(connection, places)


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
    """All that is not here is the producer's own, to set as well: closing one replaces its ``flush``."""

    def __init__(self, producer: Any, watch: Watch) -> None:
        vars(self).update(_producer=producer, _watch=watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._producer, name, value)

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
