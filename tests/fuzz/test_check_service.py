"""Bad input in the topics of the check service: it never ends, and the checks between are answered."""

import os
from functools import partial
from random import Random

import pytest
from confluent_kafka import Producer

from checkback import CheckEndpoint, CheckRequest, LocalTransactionState
from checkback.answering import endpoint
from checkback.answering.app import check_app
from checkback.wire.protocol import ACTION, ID
from checkers import CheckService
from tests.fuzz.checks import GROUP, a_check, an_announcement, good_check
from tests.fuzz.pieces import NotText
from tests.place import HALF_PARTITIONS, Place, wait_until

SEED = int(os.environ.get("CHECKBACK_FUZZ_SEED", "1"))
RECORDS = int(os.environ.get("CHECKBACK_FUZZ_RECORDS", "4000")) // 2
GOOD_EVERY = 20


class Committed:
    """A listener that says so of every transaction."""

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_the_checks_between_fuzzed_records_are_answered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # a busy machine is not an unknown outcome: neither the service nor the endpoint gives up on anything
    monkeypatch.setattr(endpoint, "check_app", partial(check_app, batch_ms=600_000))
    good = write(place)
    service = CheckService(place.settings(checks={"ask_timeout": "10min"}))
    with CheckEndpoint(place.bootstrap_servers, GROUP, Committed(), topics=place.topics):
        service.start()
        try:
            wait_until(lambda: service._failure is not None or len(answered(place, good)) == len(good), "answers")
        finally:
            service.stop()
    service.raise_if_dead()
    assert answered(place, good) == {key: [(b"commit", b"")] for key in good}


def answered(place: Place, good: set[bytes]) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """What was answered to the good checks, and the remark."""
    found: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for record in place.read(place.topics.op):
        headers = dict(record.headers)
        if headers[ID] in good:
            found.setdefault(headers[ID], []).append((headers[ACTION], record.value))
    return found


def write(place: Place) -> set[bytes]:
    """Fuzzed checks and announcements, and good checks between them; the ids of these."""
    random = Random(SEED)
    with place.producer() as kafka:
        for topic in (place.topics.check, place.topics.producers):
            kafka.send(topic, b"v", b"orders/odd", [(NotText("name"), b"1")], 0).get(120)
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "enable.idempotence": True})
    good: set[bytes] = set()
    for number in range(RECORDS):
        partition = random.randrange(HALF_PARTITIONS)
        key, value, headers = a_check(random, number)
        producer.produce(place.topics.check, value, key, partition, headers=list(headers))
        announced, body = an_announcement(random, number)
        producer.produce(place.topics.producers, body, announced, 0)
        if number % GOOD_EVERY == 0:
            key, value, valid = good_check(number, partition).to_record()
            producer.produce(place.topics.check, value, key, partition, headers=list(valid))
            good.add(key)
        producer.poll(0)
    assert producer.flush(60) == 0
    return good
