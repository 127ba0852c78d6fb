"""A producer of kafka-python's that has failed for good is replaced, not more than once a second."""

from types import SimpleNamespace
from typing import Any

import pytest

from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.kafka_python import transport
from checkback.kafka.kafka_python.transport import LastingProducer


class Client:
    def __init__(self) -> None:
        self.failed = False
        self._transaction_manager = SimpleNamespace(has_fatal_error=lambda: self.failed, last_error="so")


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(transport, "close_producer", lambda client, _: found.append(client))
    monkeypatch.setattr(transport, "in_thread", lambda call: call())
    return found


def test_one_that_has_failed_is_replaced_once_a_second(closed: list[Any]) -> None:
    made: list[Client] = []
    now = [0.0]

    def make() -> Client:
        made.append(Client())
        return made[-1]

    lasting_one = LastingProducer(make, lambda: now[0])
    assert lasting_one.client is made[0]
    made[0].failed = True
    assert lasting_one.client is made[0], "it has just been made"
    now[0] = 1.0
    assert lasting_one.client is made[1]
    assert lasting_one.client is made[1]
    assert closed == [made[0]]
    made[1].failed = True
    assert lasting_one.client is made[1]
    lasting_one.close(0)
    assert closed == made


def test_while_none_can_be_made_the_old_one_says_why(closed: list[Any]) -> None:
    now, tries = [0.0], iter([Client(), None, Client()])

    def make() -> Client:
        found = next(tries)
        if found is None:
            raise KafkaUnreachableError("away")
        return found

    lasting_one = LastingProducer(make, lambda: now[0])
    old = lasting_one.client
    old.failed = True
    now[0] = 1.0
    assert lasting_one.client is old
    now[0] = 1.5
    assert lasting_one.client is old
    now[0] = 2.0
    assert lasting_one.client is not old
    assert closed == [old]


def test_who_comes_while_another_is_made_has_the_old_one_and_after_the_end_none_is_made(closed: list[Any]) -> None:
    now, seen = [0.0], list[Any]()
    made: list[Client] = []

    def make() -> Client:
        if made:
            seen.append(lasting_one.client)
        made.append(Client())
        return made[-1]

    lasting_one = LastingProducer(make, lambda: now[0])
    made[0].failed = True
    now[0] = 1.0
    assert lasting_one.client is made[1]
    assert seen == [made[0]]
    made[1].failed = True
    lasting_one.close(0)
    now[0] = 2.0
    assert lasting_one.client is made[1]
    assert len(made) == 2
