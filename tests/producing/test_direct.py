"""A producer that delivers by a lane, on a real Kafka."""

import asyncio
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from checkback import (
    AsyncTransactionProducer,
    CheckRequest,
    ConfigurationError,
    HalfMessage,
    Message,
    Rollback,
    TransactionOptions,
    TransactionProducer,
    check_app,
)
from checkback.kafka.connecting import TransportName
from checkback.kafka.kafka_python.library import murmur2
from checkback.kafka.librdkafka.settling import Settler
from checkback.operations.topics import TopicAdministration
from checkback.producing.direct.direct import LANES
from checkback.testing import RecordingTransport
from checkback.wire.ledger import Ledger
from checkback.wire.message_id import message_id
from checkback.wire.protocol import Action, HalfPosition
from tests.answering.endpoint import Answerer, request
from tests.place import Place, wait_until
from tests.producing.producing import COMMIT, UNKNOWN, Recorder, listener

SETTLED, DELIVERED = "cb-settled", "cb-delivered"
_ORDER = threading.Lock()


def direct(place: Place, ran: Any = None) -> TransactionProducer:
    return TransactionProducer(
        place.bootstrap_servers,
        "orders",
        listener(ran or Recorder()),
        topics=place.topics,
        transport="confluent-kafka",
        delivery="direct",
    )


@pytest.fixture
def producer(place: Place, ran: Recorder) -> Iterator[TransactionProducer]:
    with direct(place, ran) as made:
        yield made


def ops(place: Place, producer: TransactionProducer) -> dict[HalfPosition, list[tuple[Action, str]]]:
    """What ops say of each half message: the action, and the fact."""
    producer.flush()
    found = defaultdict(list)
    for record in place.read(place.topics.op):
        headers = dict(record.headers)
        fact = next((name for name in (SETTLED, DELIVERED) if name in headers), "")
        found[HalfPosition.parse(headers["cb-half"].decode())].append((Action(headers["cb-action"].decode()), fact))
    return dict(found)


def values(place: Place, topic: str = "") -> list[bytes]:
    return sorted(record.value for record in place.read(topic or place.real_topic))


def settled(place: Place, lane: str) -> Ledger | None:
    return Settler(place.bootstrap_servers, place.topics, {}).settle("orders", lane)


def lane_of(place: Place, at: int = 0) -> str:
    return str(dict(place.read(place.topics.half)[at].headers)["cb-lane"].decode())


def test_a_committed_message_is_readable_and_the_op_says_so(producer: TransactionProducer, place: Place) -> None:
    headers = [("trace", b"\x00"), ("again", b"1"), ("again", b"")]
    message = Message(place.real_topic, b"value", b"key", headers=headers)
    result = producer.send_in_transaction(message, wait=True)
    assert (result.state, result.delivered, result.left_to_job) == (COMMIT, True, False)
    (record,) = place.read(place.real_topic)
    assert (record.key, record.value) == (b"key", b"value")
    assert list(record.headers) == [("cb-id", result.transaction_id.encode()), *headers]
    assert record.partition == (murmur2(b"key") & 0x7FFFFFFF) % 4
    assert ops(place, producer) == {result.half: [(Action.COMMIT, DELIVERED)]}
    names = [name for name, _ in place.read(place.topics.half)[0].headers]
    assert names == ["cb-id", "cb-group", "cb-topic", "cb-lane", "trace", "again", "again"]
    # acknowledged, it leaves the ledger with the lane's next transaction
    next_one = producer.send_in_transaction(message, wait=True)
    while lane_of(place, -1) != lane_of(place):
        next_one = producer.send_in_transaction(message, wait=True)
    assert settled(place, lane_of(place)) == Ledger([next_one.half])


def test_ends_in_all_ways(producer: TransactionProducer, place: Place) -> None:
    def sent(value: bytes) -> Message:
        return Message(place.real_topic, value)

    with producer.transaction(sent(b"block")) as block:
        pass
    assert (block.delivered(), block.left_to_job) == (True, False)
    with producer.transaction(Message(f"{place.topics.prefix}missing", b"m")) as of_job:
        pass
    assert (of_job.delivered(), of_job.left_to_job) == (False, True)
    with producer.transaction(sent(b"rolled back")) as rolled_back:
        raise Rollback
    assert (rolled_back.delivered(), rolled_back.left_to_job) == (False, False)
    unknown = producer.transaction(sent(b"unknown"))
    with pytest.raises(ZeroDivisionError), unknown:
        raise ZeroDivisionError
    with producer.begin().add(sent(b"one")).add(sent(b"two")._replace(partition=3)) as several:
        pass
    assert several.delivered()
    later = producer.prepare(sent(b"later"), options=TransactionOptions(deliver_at_ms=1))
    producer.commit(later)
    no_transaction = producer.send(sent(b"no transaction"))

    @producer.transactional(sent)
    def decorated(_: object, value: bytes) -> None:
        assert value

    decorated(b"decorated")
    found = ops(place, producer)
    assert found[block.message.half] == [(Action.COMMIT, DELIVERED)]
    assert found[rolled_back.message.half] == [(Action.ROLLBACK, SETTLED)]
    assert found[unknown.message.half] == [(Action.UNKNOWN, "")]
    assert found[several.message.half] == [(Action.COMMIT, DELIVERED)]
    assert found[later.half] == [(Action.COMMIT, "")]
    assert (later.lane, no_transaction.lane) == ("", "")
    assert values(place) == sorted([b"block", b"one", b"two", b"decorated"])
    ids = {record.value: message_id(record) for record in place.read(place.real_topic)}
    assert (ids[b"one"], ids[b"two"]) == (f"{several.transaction_id}#1", f"{several.transaction_id}#2")


def test_asyncio(producer: TransactionProducer, place: Place) -> None:
    async def run() -> bool:
        async with AsyncTransactionProducer(producer) as aio:
            async with aio.transaction(Message(place.real_topic, b"v")) as transaction:
                pass
            return await transaction.delivered()

    assert asyncio.run(run())
    assert values(place) == [b"v"]


def test_what_its_topic_refuses_goes_the_jobs_way_and_no_other(producer: TransactionProducer, place: Place) -> None:
    narrow, missing = f"{place.topics.prefix}narrow", f"{place.topics.prefix}missing"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(narrow, 1, 1, {"max.message.bytes": "1000"})
    sent = [Message(place.real_topic, b"%d" % number) for number in range(4)]
    sent[1:1] = [Message(narrow, bytes(2_000)), Message(missing, b"m"), Message(place.real_topic, b"", partition=9)]
    result = producer.send_in_transaction(Message(missing, b"m"), wait=True)
    assert (result.delivered, result.left_to_job) == (False, True)
    halves = [producer.prepare(one) for one in sent]
    for half in halves:  # one group, but perhaps for the first
        producer.commit(half)
    found = ops(place, producer)
    by_job = {half.half for half in halves[1:4]}
    assert [found[half] for half in by_job] == 3 * [[(Action.COMMIT, SETTLED)]]
    assert {half for half, told in found.items() if told == [(Action.COMMIT, DELIVERED)]} == {
        half.half for half in halves if half.half not in by_job
    }
    assert values(place) == [b"0", b"1", b"2", b"3"]
    assert len({half.lane for half in halves} | {producer.prepare(sent[0]).lane}) <= LANES


def test_a_lane_that_somebody_settles_is_used_no_more(producer: TransactionProducer, place: Place) -> None:
    message = Message(place.real_topic, b"v", b"key")  # which keeps them on one lane
    open_one, waiting, before = (producer.prepare(message) for _ in range(3))
    producer.commit(before)
    producer.flush()
    assert settled(place, before.lane) == Ledger([before.half])
    producer.commit(waiting)
    wait_until(lambda: producer.prepare(message).lane not in {"", before.lane}, what="another lane")
    producer.rollback(open_one)
    after = producer.send_in_transaction(message, wait=True)
    assert after.delivered
    assert ops(place, producer) == {
        before.half: [(Action.COMMIT, DELIVERED)],
        waiting.half: [(Action.COMMIT, SETTLED)],
        open_one.half: [(Action.ROLLBACK, SETTLED)],
        after.half: [(Action.COMMIT, DELIVERED)],
    }
    assert len(place.read(place.real_topic)) == 2


def test_messages_of_a_key_come_in_the_order_of_their_commits(producer: TransactionProducer, place: Place) -> None:
    """Of one key that stays in use, so on one lane, and of some that go from lane to lane, some of them together."""
    committed: dict[bytes, list[bytes]] = defaultdict(list)
    topic = place.real_topic

    def send(number: int) -> None:
        keys = [b"always"] if number % 2 else [b"%d" % (number % 7), b"%d" % (number % 11)][: 1 + number % 3 // 2]
        half = producer.prepare_several([Message(topic, b"%d" % number, key) for key in dict.fromkeys(keys)])
        with _ORDER:
            for key in dict.fromkeys(keys):
                committed[key].append(b"%d" % number)
            producer.commit(half)

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(send, range(960)))
    producer.flush(120)
    read = defaultdict(list)
    for record in place.read(topic):
        read[record.key].append(record.value)
    assert read == committed


def test_the_producers_own_endpoint_knows(producer: TransactionProducer, place: Place) -> None:
    answers = Answerer(COMMIT)
    app = check_app(answers, "orders")

    def answer(half: HalfMessage) -> dict[str, str]:
        asked = CheckRequest(
            *(half.transaction_id, "orders", place.real_topic, None, b"v", [], half.half, 1, 15, 0), lane=half.lane
        )
        return dict(request(app, asked.to_json()).json())

    half = producer.prepare(Message(place.real_topic, b"v"))
    said = answer(half)
    assert (said["state"], said["lane"]) == ("commit", "settled")
    producer.commit(half)
    assert ops(place, producer) == {half.half: [(Action.COMMIT, SETTLED)]}
    assert place.read(place.real_topic) == []
    assert "lane" not in answer(half._replace(lane="0" * 32))
    assert len(answers.asked) == 2
    unsure = check_app(Answerer(UNKNOWN), "orders")
    open_one = producer.prepare(Message(place.real_topic, b"v"))
    asked = CheckRequest(
        *(open_one.transaction_id, "orders", place.real_topic, None, b"v", [], open_one.half, 1, 15, 0),
        lane=open_one.lane,
    )
    assert request(unsure, {"checks": [asked.to_json()]}).json()["answers"] == [
        {"id": open_one.transaction_id, "state": "unknown", "remark": ""}
    ]
    producer.commit(open_one)
    producer.flush()
    assert values(place) == [b"v"]


def test_closing_delivers_what_was_committed(place: Place) -> None:
    with direct(place) as producer:
        for number in range(50):
            producer.commit(producer.prepare(Message(place.real_topic, b"%d" % number)))
    assert len(place.read(place.real_topic)) == 50
    assert len(place.read(place.topics.op)) == 50


def test_what_cannot_be(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="'job' or 'direct'"):
        TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics, delivery="lane")
    with (
        TransactionProducer(place.bootstrap_servers, "orders", listener(Recorder()), topics=place.topics) as producer,
        pytest.raises(ConfigurationError, match="wait=True needs delivery='direct'"),
    ):
        producer.send_in_transaction(Message(place.real_topic, b"v"), wait=True)
    assert place.read(place.topics.half) == []


@pytest.mark.parametrize("transport", [TransportName.KAFKA_PYTHON, RecordingTransport()])
def test_a_producer_on_another_client_is_refused_before_it_connects(transport: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"needs transport='confluent-kafka'.*checkback\[fast\]"):
        TransactionProducer("nowhere:1", "orders", transport=transport, delivery="direct")


def test_it_costs_nothing_where_it_is_not_used(place: Place, transport: TransportName) -> None:
    program = f"""
import sys, threading
from checkback import Message, Topics, TransactionProducer
servers, topics = {place.bootstrap_servers!r}, Topics({place.topics.prefix!r})
with TransactionProducer(servers, "orders", topics=topics, transport={str(transport)!r}) as producer:
    producer.commit(producer.prepare(Message({place.real_topic!r}, b"v")))
    assert "checkback-lane" not in {{thread.name for thread in threading.enumerate()}}
print([name for name in sys.modules if "lane" in name or "direct" in name or "settl" in name])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "['checkback.wire.lanes', 'checkback.own_lanes']"
