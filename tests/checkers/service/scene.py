"""A check service on a real Kafka, checks for it, and what it answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from checkback import CheckEndpoint, CheckRequest, HalfPosition, LocalTransactionState, Topics
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import ID
from checkers import CheckService
from conf import Settings
from tests.place import Place

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


SECONDS = 120.0


def request(transaction_id: str = "tx", group: str = "orders", partition: int = 1, **other: Any) -> CheckRequest:
    given: dict[str, Any] = {"topic": "paid", "key": b"k", "value": b"v", "headers": [("trace", b"\x00")], **other}
    numbers = {"attempt": 2, "check_max": 15, "ingested_ms": 1_000}
    return CheckRequest(transaction_id, group, **{"half": HalfPosition(partition, 7), **numbers, **given})


def put(place: Place, *requests: CheckRequest, partition: int = 0) -> None:
    """Write checks as the job does, all into one partition of ``cb.check``."""
    producer = place.producer()
    for one in requests:
        key, value, headers = one.to_record()
        producer.send(place.topics.check, value, key, headers, partition)
    producer.close()


def answers(place: Place) -> dict[str, Any]:
    """The ops in Kafka, by transaction id; one for each, and before it perhaps one that nobody could be asked."""
    by_id, unreachable = dict[str, Any](), set[str]()
    for record in place.read(place.topics.op):
        name = dict(record.headers)[ID].decode()
        assert name not in by_id or name in unreachable, "a check was answered twice"
        if dict(record.headers)["cb-action"] == b"unreachable":
            assert name not in by_id, "a check was answered twice"
            unreachable.add(name)
        else:
            unreachable.discard(name)
        by_id[name] = record
    return by_id


def answered(place: Place) -> set[str]:
    """Transactions that have an op, or more: after an outage a check may be asked again."""
    return {dict(record.headers)[ID].decode() for record in place.read(place.topics.op)}


def actions(place: Place) -> dict[str, str]:
    return {name: dict(record.headers)["cb-action"].decode() for name, record in answers(place).items()}


def committed(place: Place, partition: int = 0) -> int | None:
    """Where the next service begins to read ``cb.check``."""
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, group_id=f"{place.topics.prefix}checkers")
    try:
        found: int | None = consumer.committed(TopicPartition(place.topics.check, partition))
        return found
    finally:
        consumer.close()


@contextmanager
def running(settings: Settings | CheckService) -> Iterator[CheckService]:
    service = settings if isinstance(settings, CheckService) else CheckService(settings)
    service.start()
    try:
        yield service
        service.raise_if_dead()
    finally:
        service.stop()
    assert not any(thread.is_alive() for thread in service._threads)
    service.raise_if_dead()


class Answerer:
    """A listener that says the same of every transaction, and counts who asks."""

    def __init__(self, state: LocalTransactionState = COMMIT) -> None:
        self.asked: list[CheckRequest] = []
        self._state = state

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request)
        return self._state

    def ids(self) -> list[str]:
        return [one.transaction_id for one in self.asked]


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}/"


@contextmanager
def serving(place: Place, group: str, answerer: Answerer) -> Iterator[str]:
    """An endpoint that announces itself where the service does not look: only the settings can name it."""
    elsewhere = Topics(f"else.{place.topics.prefix}")
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(elsewhere.producers, 1)
    with CheckEndpoint(place.bootstrap_servers, group, answerer, topics=elsewhere) as endpoint:
        yield endpoint.url
