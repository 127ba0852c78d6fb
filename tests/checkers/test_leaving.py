"""A service that ends leaves its consumer group, whatever else goes wrong. The Kafka clients are fakes."""

import threading
import time
from functools import partial
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from checkback.exceptions import KafkaUnreachableError, NotAllowedError
from checkers import CheckService
from checkers.clients import KafkaClients, _close
from conf import Settings
from tests.checkers.kafka_fakes import REGISTRY, FakeAnswers, FakeConsumer
from tests.checkers.settling.fakes import FakeSettler
from tests.place import wait_until


class FakeClients(KafkaClients):
    """The real closing, of clients that are none."""

    def __init__(self, _: Settings) -> None:
        self.checks, self.again = FakeConsumer(), FakeConsumer()
        self.registry, self.answers = FakeConsumer(REGISTRY), FakeAnswers()
        closing: list[Any] = [partial(_close, one) for one in (self.checks, self.again, self.registry)]
        self._settler_lock, self._settler, self._closing = threading.Lock(), None, False
        self.settles = FakeSettler()
        self._connect_settler = lambda: self.settles  # type: ignore[assignment]  # a fake of it
        self._opened = [("closing one", close) for close in (*closing, self.answers.close)]

    def all_closed(self) -> bool:
        return all(one.closed for one in (self.checks, self.again, self.registry, self.answers))


def service_on(clients: FakeClients) -> CheckService:
    return CheckService(Settings(), connect=lambda _: clients)


def stopped(service: CheckService) -> None:
    service.stop()
    assert not any(thread.is_alive() for thread in service._threads)


def test_all_clients_are_closed() -> None:
    clients = FakeClients(Settings())
    service = service_on(clients)
    service.start()
    wait_until(lambda: clients.checks.polls > 0)
    stopped(service)
    service.raise_if_dead()
    assert clients.all_closed()


def test_what_settles_lanes_is_made_when_it_is_needed_and_not_by_a_service_that_closes() -> None:
    clients = FakeClients(Settings())
    assert len(clients._opened) == 4
    made: list[Any] = [clients.settler(), clients.settler()]
    assert made == 2 * [clients.settles]
    clients.close(1)
    assert clients.all_closed()
    with pytest.raises(KafkaUnreachableError, match="closing"):
        clients.settler()


@pytest.mark.parametrize("who", ["checks", "again", "registry", "answers"])
def test_all_clients_are_closed_though_one_fails(who: str) -> None:
    clients = FakeClients(Settings())
    service = service_on(clients)
    service.start()
    wait_until(lambda: clients.checks.polls > 0)
    getattr(clients, who).fails = [KafkaTimeoutError()] * 1_000
    stopped(service)
    assert clients.all_closed()


def test_all_clients_are_closed_in_time_though_kafka_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = FakeClients(Settings())

    def slow(seconds: float) -> Any:
        time.sleep(seconds)
        raise KafkaTimeoutError

    monkeypatch.setattr(clients.answers, "flush", slow)
    service = service_on(clients)
    service.start()
    wait_until(lambda: clients.checks.polls > 0)
    service.stop(2.0)
    assert clients.all_closed()


def test_all_clients_are_closed_when_it_ends_by_itself_and_says_why() -> None:
    clients = FakeClients(Settings())
    clients.checks.fails = [TopicAuthorizationFailedError("cb.check")]
    service = service_on(clients)
    service.start()
    wait_until(clients.all_closed)
    with pytest.raises(NotAllowedError, match=r"grant its user Read on the topic cb\.check"):
        service.raise_if_dead()
    stopped(service)


def test_kafka_may_be_away_while_it_runs() -> None:
    clients = FakeClients(Settings())
    clients.checks.fails = [KafkaTimeoutError()] * 4
    service = service_on(clients)
    service.start()
    wait_until(lambda: clients.checks.polls > 5)
    service.raise_if_dead()
    stopped(service)
