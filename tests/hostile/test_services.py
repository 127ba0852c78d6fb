"""What runs all the time, on topics full of hostile records: the check service, and the status page."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from prometheus_client import CollectorRegistry, generate_latest

from checkback import CheckEndpoint, CheckRequest, LocalTransactionState
from checkback.consumer.resetting.group_offsets import answered as answered_by_kafka
from checkback.operations.topics import admin_client
from checkback.wire.protocol import ACTION, ID
from checkers import CheckService
from checkers.behind import Reading
from status_page.app import status_app
from status_page.transactions.lookup import Transactions
from status_page.transactions.schema import PARKED, STATUS
from tests.hostile.place import HALF, kinds, pollute
from tests.hostile.records import WILD_NOTES
from tests.place import Place, wait_until
from tests.status_page.browser import Browser
from tests.status_page.sample import SampleView


class Committed:
    """A listener that says so of every transaction."""

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


@contextmanager
def served(place: Place, registry: CollectorRegistry) -> Iterator[CheckService]:
    service = CheckService(place.settings(), registry=registry)
    service.start()
    try:
        yield service
    finally:
        service.stop()
    service.raise_if_dead()


def answered(place: Place) -> int:
    """How many of the good checks are."""
    ops = [dict(record.headers) for record in place.read(place.topics.op)]
    return sum(headers[ID] == b"good" and headers[ACTION] == b"commit" for headers in ops)


def dealt_with(place: Place) -> bool:
    """Whether the check service has committed all checks, and none of the group that is there waits."""
    group = f"{place.topics.prefix}checkers"
    with closing(KafkaConsumer(bootstrap_servers=place.bootstrap_servers, group_id=group)) as consumer:
        numbers = consumer.partitions_for_topic(place.topics.check) or ()
        places = [TopicPartition(place.topics.check, number) for number in numbers]
        found = {one: consumer.committed(one, metadata=True) for one in places}
        ends = consumer.end_offsets(places)
    told = {place: (one.offset, '["shop"' in one.metadata) for place, one in found.items() if one}
    return all(not end or told.get(place) == (end, False) for place, end in ends.items())


def test_the_check_service_answers_what_lies_between(place: Place) -> None:
    for topic in (place.topics.check, place.topics.producers):
        pollute(place, topic)
    registry = CollectorRegistry()
    with CheckEndpoint(place.bootstrap_servers, "shop", Committed(), topics=place.topics), served(place, registry):
        wait_until(lambda: dealt_with(place), "all of them are committed")
        # the good ones are of one transaction: one that comes while another is asked is answered with it
        assert answered(place) >= 1
        assert b'group="shop"' in generate_latest(registry)


@pytest.mark.parametrize("note", WILD_NOTES)
def test_a_wild_note_says_nothing(note: str) -> None:
    assert all(0 <= backlog.next < 2**63 for backlog in Reading(0, note).backlogs.values())


@pytest.mark.parametrize("note", [WILD_NOTES[0], '[["a","b",-5]]'])
def test_a_wild_note_beside_its_offset_does_not_end_it(place: Place, note: str) -> None:
    kind = kinds(place)[place.topics.check]
    key, value, headers = kind.good
    with place.producer() as producer:
        named = [(name.decode(), content or b"") for name, content in headers]
        producer.send(place.topics.check, value, key, named, 0).get(120)
    admin = admin_client(place.bootstrap_servers)
    try:
        noted = {TopicPartition(place.topics.check, 0): OffsetAndMetadata(0, note, -1)}
        answered_by_kafka(lambda: admin.alter_group_offsets(f"{place.topics.prefix}checkers", noted))
    finally:
        admin.close()
    with (
        CheckEndpoint(place.bootstrap_servers, "shop", Committed(), topics=place.topics),
        served(place, CollectorRegistry()),
    ):
        wait_until(lambda: answered(place) == 1, "its answer")


def test_the_status_page_shows_what_lies_between(polluted: tuple[Place, dict[str, int]]) -> None:
    place, _ = polluted
    settings = place.settings()
    transactions = Transactions(settings)
    transactions.start()
    try:
        wait_until(lambda: transactions.standing().complete, "all was read")
        index = transactions.index
        assert index.in_doubt_at(HALF) is not None
        assert [one.transaction_id for one in index.parked_at(HALF)] == ["good"]
        assert not transactions.standing().problem
        browser = Browser(status_app(settings, SampleView(), transactions, CollectorRegistry()))
        for path in ("/", "/transactions", "/parked", "/groups", "/api/v1/transactions?limit=500", "/api/v1/parked"):
            assert browser.get(path).status_code == 200, path
        places = {one.half for one in index.in_doubt(limit=500)} | {one.half for one in index.parked(limit=500)}
        for half in places:
            assert browser.get(f"/transactions/{half}").status_code == 200, half
        assert index.total(STATUS.name).number + index.total(PARKED.name).number > 2
    finally:
        transactions.stop()
