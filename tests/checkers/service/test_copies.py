"""Copies of signed half messages, on a real Kafka: what the check service writes of them."""

import asyncio
import time
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from checkback import CheckEndpoint, CheckRequest, LocalTransactionState, SigningKey, Topics
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.reading import PartitionReader
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.protocol import Action, HalfPosition, half_headers
from checkers import CheckService, copies
from checkers.ask import EndpointVerdict
from checkers.clients import connect_reader
from checkers.copies import COPY, NOT_KNOWN, Copies
from checkers.signature_index import SignatureIndex
from conf import Settings
from tests.checkers.asking import at_once
from tests.checkers.service.scene import COMMIT, ROLLBACK, Answerer, put, request, running
from tests.place import Place, wait_until

SECRET = "s" * 40
SHOP = SigningKey("shop-1", SECRET)
POLICY = """
other_groups = "allow"
[accounts.shop]
groups = ["shop"]
keys = ["shop-1"]
[accounts.checks]
keys = ["checks-1"]
roles = ["checks"]
"""


@pytest.fixture(name="settings")
def with_keys(place: Place, tmp_path: Path) -> Settings:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    policy.write_text(POLICY, encoding="utf-8")
    secrets.write_text(f'shop-1 = "{SECRET}"\nchecks-1 = "{"c" * 40}"\n', encoding="utf-8")
    return place.settings(access={"policy": str(policy), "secrets": str(secrets), "key": "checks-1"})


def half(topics: Topics, name: str, group: str = "shop") -> OutgoingRecord:
    return signed(OutgoingRecord(topics.half, 1, None, b"v", half_headers(name, group, "paid")), SHOP)


def write(place: Place, *records: OutgoingRecord) -> list[HalfPosition]:
    producer = place.producer()
    sent = [producer.send(one.topic, one.value, headers=list(one.headers), partition=one.partition) for one in records]
    places = [HalfPosition(1, one.get(60).offset) for one in sent]
    producer.close()
    return places


def test_a_copy_is_rolled_back_and_the_original_committed(
    place: Place, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    bought, undone, free = half(place.topics, "a"), half(place.topics, "b"), half(place.topics, "c", "free")
    again = half(place.topics, "d")
    time.sleep(0.002)  # what an application sends again has another time in its signature
    resent = half(place.topics, "d")
    places = write(place, bought, undone, again, bought, undone, free, free, resent, bought)
    names = ["a", "b", "d", "a", "b", "c", "c", "d", "a"]
    groups = ["free" if name == "c" else "shop" for name in names]
    registry = CollectorRegistry()
    with (
        CheckEndpoint(place.bootstrap_servers, "shop", ByName(), topics=place.topics, signing=SHOP),
        CheckEndpoint(place.bootstrap_servers, "free", ByName(), topics=place.topics),
        running(CheckService(settings, registry=registry)),
    ):
        put(place, *(request(name, group, half=at) for name, group, at in zip(names, groups, places, strict=True)))
        wait_until(lambda: len(place.read(place.topics.op)) == len(places), "answers")
    said = {}
    for record in place.read(place.topics.op):
        headers = dict(record.headers)
        said[HalfPosition.parse(headers["cb-half"].decode())] = headers["cb-action"].decode()
    rolled_back = {places[number] for number in (1, 3, 4, 8)}
    assert said == {at: "rollback" if at in rolled_back else "commit" for at in places}
    assert sum(COPY in record.getMessage() for record in caplog.records) == 2  # of the rolled back nobody has to know
    (counted,) = (one for family in registry.collect() for one in family.samples if "check_copies_total" in one.name)
    assert (counted.labels, counted.value) == ({"group": "shop"}, 2)


class ByName(Answerer):
    """Commits all but ``b``."""

    def __init__(self) -> None:
        super().__init__(COMMIT)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        super().check_local_transaction(request)
        return ROLLBACK if request.transaction_id == "b" else COMMIT


def test_a_copy_is_found_among_all_that_lies_between(place: Place, settings: Settings) -> None:
    one = half(place.topics, "one")
    others = [half(place.topics, f"other-{number}") for number in range(3_000)]
    places = write(place, *others[:1_500], one, *others[1_500:], one, others[0])
    with closing(connect_reader(settings)) as consumer:
        index, reader = SignatureIndex(), PartitionReader(consumer, TopicPartition(place.topics.half, 1))
        found = {at for at in places[::10] + places[-2:] if index.is_copy(reader, at, monotonic() + 60)}
    assert found == set(places[-2:])


def test_where_kafka_does_not_answer_nothing_is_committed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_TURNS", 3)
    calls = []

    def away() -> Any:
        calls.append(1)
        raise ConnectionError("nobody there")

    async def judged() -> list[EndpointVerdict]:
        found: list[EndpointVerdict] = []
        looking = Copies(place.topics.half, lambda group: group == "shop", away, at_once)
        for group in ("shop", "free"):
            looking.settle(request(group=group), EndpointVerdict(Action.COMMIT, ""), found.append)
        looking.settle(request(group="shop"), EndpointVerdict(Action.UNKNOWN, "so"), found.append)
        assert len(found) == 2
        while len(found) < 3:  # noqa: ASYNC110  (it is a condition with the test's own time limit)
            await asyncio.sleep(0.01)
        looking.close()
        return found

    free, unknown, not_known = asyncio.run(judged())
    assert (free.action, unknown.action, not_known.action) == (Action.COMMIT, Action.UNKNOWN, Action.UNREACHABLE)
    assert not_known.remark.startswith(NOT_KNOWN)
    assert len(calls) > 1
