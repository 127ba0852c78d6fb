"""The check service on a real Kafka: what it reads in ``cb.check``, whom it asks, and the op it writes."""

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition

from checkback import CheckEndpoint, CheckRequest, HalfPosition, LocalTransactionState, Topics
from checkback.exceptions import CheckbackError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import HEADER_VERSION, ID, Action, Source, op_headers
from checkers import CheckService
from conf import Settings
from tests.place import HALF_PARTITIONS, Place, wait_until

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
SECONDS = 20.0


def request(transaction_id: str = "tx", group: str = "orders", partition: int = 1, **other: Any) -> CheckRequest:
    given: dict[str, Any] = {"topic": "paid", "key": b"k", "value": b"v", "headers": [("trace", b"\x00")], **other}
    numbers = {"attempt": 2, "check_max": 15, "ingested_ms": 1_000}
    return CheckRequest(transaction_id, group, half=HalfPosition(partition, 7), **{**numbers, **given})


def put(place: Place, *requests: CheckRequest, partition: int = 0) -> None:
    """Write checks as the job does, all into one partition of ``cb.check``."""
    producer = place.producer()
    for one in requests:
        key, value, headers = one.to_record()
        producer.send(place.topics.check, value, key, headers, partition)
    producer.close()


def put_raw(place: Place, topic: str, value: bytes | None, key: bytes | None, headers: list[Any] | None = None) -> None:
    """Write a record that our own client might refuse, into partition 0."""
    producer = Producer({"bootstrap.servers": place.bootstrap_servers})
    producer.produce(topic, value, key, 0, headers=headers)
    assert producer.flush(SECONDS) == 0


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


def note(place: Place, partition: int = 0) -> str:
    """What is committed beside it: which checks wait."""
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, group_id=f"{place.topics.prefix}checkers")
    try:
        found = consumer.committed(TopicPartition(place.topics.check, partition), metadata=True)
        return "" if found is None else str(found.metadata)
    finally:
        consumer.close()


def members(place: Place) -> list[Any]:
    """Who is in the check services' group."""
    group = f"{place.topics.prefix}checkers"
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    return list(admin.describe_consumer_groups([group])[group].result(SECONDS).members)


@contextmanager
def running(settings: Settings) -> Iterator[CheckService]:
    service = CheckService(settings)
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


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        server.settimeout(SECONDS)
        yield server


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}/"


@pytest.fixture
def closed() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield url_of(bound)


@pytest.fixture
def trickling() -> Iterator[str]:
    """An endpoint that sends one byte of its answer after the other, and is never done."""
    ending = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):  # in the end the other side gives up, as it should
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ending.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        thread = threading.Thread(target=trickle, args=(taken,))
        thread.start()
        yield url_of(taken)
        ending.set()
        thread.join()


def test_a_check_is_answered_by_an_announced_endpoint(place: Place) -> None:
    asked, answerer = request(), Answerer(ROLLBACK)
    with CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics), running(place.settings()):
        put(place, asked)
        wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    [op] = answers(place).values()
    assert op.partition == asked.half.partition
    assert list(op.headers) == op_headers("tx", "orders", asked.half, Action.ROLLBACK, Source.CHECK)
    assert (op.key, op.value) == (None, b"")
    assert answerer.asked == [asked]


def test_an_endpoint_announced_later_is_found(place: Place) -> None:
    with running(place.settings()):
        put(place, request("early"))
        wait_until(lambda: "early" in answers(place), SECONDS, "the first answer")
        with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics):
            # the service hears of it soon, but not at once
            def asked_again() -> bool:
                name = f"late-{len(answers(place))}"
                put(place, request(name))
                wait_until(lambda: name in answers(place), SECONDS, "the next answer")
                return actions(place)[name] == "commit"

            wait_until(asked_again, SECONDS, "a verdict")
            wait_until(lambda: actions(place)["early"] == "commit", SECONDS, "the one that nobody could be asked about")


def test_without_an_endpoint_the_group_is_unreachable_at_once(place: Place) -> None:
    with running(place.settings()):
        put(place, request())
        wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    [op] = answers(place).values()
    assert dict(op.headers)["cb-action"] == b"unreachable"
    assert op.value == b"no live endpoint of group orders is known"


def test_an_announcement_taken_back_is_asked_no_longer(place: Place) -> None:
    answerer = Answerer()
    CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics).start().close()
    with running(place.settings()):
        put(place, request())
        wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    assert actions(place) == {"tx": "unreachable"}
    assert answerer.asked == []


@contextmanager
def serving(place: Place, group: str, answerer: Answerer) -> Iterator[str]:
    """An endpoint that announces itself where the service does not look: only the settings can name it."""
    elsewhere = Topics(f"else.{place.topics.prefix}")
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(elsewhere.producers, 1)
    with CheckEndpoint(place.bootstrap_servers, group, answerer, topics=elsewhere) as endpoint:
        yield endpoint.url


def test_a_fixed_endpoint_is_asked_after_one_that_cannot_be_reached(place: Place, closed: str) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        settings = place.settings(checks={"endpoints": {"orders": [closed, url]}})
        assert [str(one) for one in settings.checks.endpoints["orders"]] == [closed, url]
        with running(settings):
            put(place, request())
            wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    assert actions(place) == {"tx": "commit"}
    assert answerer.ids() == ["tx"]


def test_nobody_else_is_asked_after_an_endpoint_without_a_verdict(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        checks = {"endpoints": {"orders": [url_of(silent), url]}, "ask_timeout": "300ms"}
        with running(place.settings(checks=checks)):
            put(place, request())
            wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    assert actions(place) == {"tx": "unknown"}
    assert answerer.asked == []


def test_an_endpoint_that_never_comes_to_an_end_is_given_up(place: Place, trickling: str) -> None:
    with running(place.settings(checks={"endpoints": {"orders": [trickling]}, "ask_timeout": "500ms"})):
        put(place, request())
        wait_until(lambda: bool(answers(place)), 5, "an answer though the endpoint is never done")
    assert actions(place) == {"tx": "unknown"}


def test_a_group_that_hangs_does_not_delay_another(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "invoices", answerer) as url:
        checks = {
            "endpoints": {"orders": [url_of(silent)], "invoices": [url]},
            "ask_timeout": "30s",
            "concurrency_per_group": 4,
        }
        with running(place.settings(checks=checks)):
            put(place, *(request(f"hangs-{number}") for number in range(20)))
            connection, _ = silent.accept()
            put(place, request("quick", "invoices"))
            wait_until(lambda: bool(answers(place)), SECONDS, "the other group's answer")
            assert actions(place) == {"quick": "commit"}
            connection.close()


def test_more_checks_than_may_wait_wait_in_kafka(place: Place, silent: socket.socket) -> None:
    checks = {"endpoints": {"orders": [url_of(silent)]}, "ask_timeout": "30s", "queue_per_group": 3}
    with running(place.settings(checks=checks)):
        put(place, *(request(f"tx-{number}") for number in range(5)))
        wait_until(lambda: bool(note(place)), SECONDS, "a note of those that wait")
        assert answers(place) == {}
    listener = Answerer()
    with CheckEndpoint(place.bootstrap_servers, "orders", listener, topics=place.topics), running(place.settings()):
        wait_until(lambda: len(answers(place)) == 5, SECONDS, "all answers")
    assert sorted(listener.ids()) == [f"tx-{number}" for number in range(5)]


def test_a_group_that_is_away_is_asked_once_about_each_when_it_is_back(place: Place) -> None:
    """Also by another service than the one that found it away; those of others in between are not asked again."""
    orders, invoices = Answerer(), Answerer()
    mixed = [request(f"tx-{number}", "orders" if number % 4 else "invoices") for number in range(400)]
    with CheckEndpoint(place.bootstrap_servers, "invoices", invoices, topics=place.topics):
        with running(place.settings()):
            put(place, *mixed)
            wait_until(lambda: len(answers(place)) == 200, SECONDS, "an answer to 100 of each group")
            wait_until(lambda: committed(place) == 400, SECONDS, "all to be read")
        assert [*actions(place).values()].count("unreachable") == 100
        orders_endpoint = CheckEndpoint(place.bootstrap_servers, "orders", orders, topics=place.topics)
        with running(place.settings()), orders_endpoint:
            decided = Counter(unreachable=0, commit=400)
            wait_until(lambda: Counter(actions(place).values()) == decided, SECONDS, "all answers")
    assert len(orders.ids()) == len(set(orders.ids())) == 300, "also those that were answered unreachable"
    assert len(invoices.ids()) == 100


class _SaysNoText(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # http.server's name for it
        self.rfile.read(int(self.headers["Content-Length"]))
        body = rb'{"state": "commit", "remark": "half a \ud83d"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_remark_that_is_no_text_does_not_stop_it(place: Place) -> None:
    with HTTPServer(("127.0.0.1", 0), _SaysNoText) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            with running(place.settings(checks={"endpoints": {"orders": [url_of(server.socket)]}})):
                put(place, request())
                wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
        finally:
            server.shutdown()
            thread.join()
    assert actions(place) == {"tx": "commit"}
    assert answers(place)["tx"].value == b"half a ?"


GARBAGE: dict[str, tuple[bytes | None, bytes | None, list[Any] | None]] = {
    "nothing at all": (None, None, None),
    "no headers": (b"hello", b"key", None),
    "a later version's": (b"v", b"k", [(ID, b"x"), (HEADER_VERSION, b"2")]),
    "an id that is not text": (b"v", b"k", [(ID, b"\xff"), *request().to_record()[2][1:]]),
    "a null id": (b"v", b"k", [(ID, None), *request().to_record()[2][1:]]),
    "a null attempt": (b"v", b"k", [*request().to_record()[2], ("cb-attempt", None)]),
    "an empty group": (b"v", b"k", request("nobody", group="").to_record()[2]),
    "a group too long": (b"v", b"k", request("all", group="g" * 256).to_record()[2]),
    "an attempt beyond counting": (b"v", b"k", request("often", attempt=10**30).to_record()[2]),
    "a half nowhere": (b"v", b"k", request("nowhere", partition=HALF_PARTITIONS).to_record()[2]),
    "a half far away": (b"v", b"k", request("far", partition=10**12).to_record()[2]),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_record_that_is_no_check_does_not_stop_it(name: str, place: Place) -> None:
    put_raw(place, place.topics.check, *GARBAGE[name])
    put(place, request("good"))
    with running(place.settings()) as service:
        wait_until(lambda: _dead(service) or "good" in answers(place), SECONDS, "the good one's answer")
    assert list(answers(place)) == ["good"]
    assert committed(place) == 2, "it is not stepped over for good: the next service would begin with it"
    assert members(place) == [], "it has not left its group: the next service would wait for it"


def test_a_header_name_that_is_not_utf_8_does_not_stop_it(place: Place) -> None:
    with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics):
        with place.producer() as producer:
            for topic in (place.topics.check, place.topics.producers):
                for name in ("fine", _NotText("bad"), "fine", _NotText("bad")):
                    producer.send(topic, b"v", b"orders/b", headers=[(name, b"1")], partition=0)
                producer.flush()
        put(place, request("good"))
        with running(place.settings()) as service:
            wait_until(lambda: _dead(service) or bool(answers(place)), SECONDS, "the good one's answer")
    assert actions(place) == {"good": "commit"}


class _NotText(str):
    """What a client in another language may give a header as its name."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe" + super().encode()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"orders/a", b"garbage"),
        (b"orders/a", b'{"group": "orders", "instance": "a", "url": "http://x/", "time_ms": Infinity}'),
        (b"orders/a", b'{"group": "orders", "instance": "a", "url": "http://127.0.0.1:99999/", "time_ms": 1}'),
        (b"orders/a", b'{"group": "orders", "instance": "a", "url": "", "time_ms": 1}'),
    ],
)
def test_an_announcement_that_is_none_does_not_stop_it(key: bytes | None, value: bytes, place: Place) -> None:
    put_raw(place, place.topics.producers, value, key)
    put(place, request())
    with running(place.settings()) as service:
        wait_until(lambda: _dead(service) or bool(answers(place)), 10, "an answer")
    assert set(actions(place).values()) <= {"unreachable", "unknown"}


def _dead(service: CheckService) -> bool:
    return service._failure is not None


def test_many_checks_are_answered_in_batches_each_with_its_own_op(place: Place) -> None:
    asked, answerer = [request(f"tx-{number}") for number in range(300)], Answerer()
    with CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics):
        put(place, *asked)
        with running(place.settings()):
            wait_until(lambda: len(answers(place)) == 300, SECONDS, "all answers")
    assert set(actions(place).values()) == {"commit"}
    assert sorted(answerer.ids()) == sorted(one.transaction_id for one in asked)


@pytest.mark.parametrize(("key", "said"), [("0123456789abcdef", "commit"), ("another key, as long", "unknown")])
def test_a_group_with_a_key_is_asked_with_signatures(key: str, said: str, place: Place) -> None:
    answerer = Answerer()
    with (
        CheckEndpoint(place.bootstrap_servers, "orders", answerer, key="0123456789abcdef", topics=place.topics),
        running(place.settings(checks={"keys": {"orders": key}})),
    ):
        put(place, request())
        wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    assert actions(place) == {"tx": said}


def test_an_endpoint_that_is_not_allowed_is_not_asked(place: Place) -> None:
    answerer = Answerer()
    with (
        CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics),
        running(place.settings(checks={"allowed_hosts": ["10.0.0.0/8"]})),
    ):
        put(place, request())
        wait_until(lambda: bool(answers(place)), SECONDS, "an answer")
    [op] = answers(place).values()
    assert dict(op.headers)["cb-action"] == b"unreachable"
    assert b"is not in checks.allowed_hosts" in op.value
    assert answerer.asked == []


def test_an_answered_check_is_not_asked_again_by_the_next_service(place: Place) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        settings = place.settings(checks={"endpoints": {"orders": [url]}})
        with running(settings):
            put(place, request("first"))
            wait_until(lambda: "first" in answers(place), SECONDS, "the first answer")
        with running(settings):
            put(place, request("second"))
            wait_until(lambda: "second" in answers(place), SECONDS, "the second answer")
    assert answerer.ids() == ["first", "second"]


def test_a_check_not_answered_is_asked_again_by_the_next_service(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url, serving(place, "invoices", answerer) as invoices:
        hanging = {"endpoints": {"orders": [url_of(silent)], "invoices": [invoices]}, "ask_timeout": "60s"}
        with running(place.settings(checks=hanging)):
            put(place, request("hangs"), request("answered", "invoices"))
            wait_until(lambda: "answered" in answers(place), SECONDS, "the answer behind the one that hangs")
        assert answerer.ids() == ["answered"]
        with running(place.settings(checks={"endpoints": {"orders": [url], "invoices": [invoices]}})):
            wait_until(lambda: "hangs" in answerer.ids(), SECONDS, "the question that was not answered")
            wait_until(lambda: len(place.read(place.topics.op)) == 3, SECONDS, "its answer")
    # what lies behind it was not committed either: asked at least once, here twice
    assert sorted(answerer.ids()) == ["answered", "answered", "hangs"]


def test_a_topic_of_checks_that_is_made_again_is_read_from_its_beginning(place: Place) -> None:
    answerer, admin = Answerer(), AdminClient({"bootstrap.servers": place.bootstrap_servers})
    with serving(place, "orders", answerer) as url, running(place.settings(checks={"endpoints": {"orders": [url]}})):
        put(place, *(request(f"former-{number}") for number in range(5)))
        wait_until(lambda: committed(place) == 5, SECONDS, "the answers to the former topic's checks")
        admin.delete_topics([place.topics.check])[place.topics.check].result(SECONDS)
        wait_until(lambda: place.topics.check not in admin.list_topics().topics, SECONDS, "the topic's end")
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.create_one(place.topics.check, HALF_PARTITIONS)
        put(place, request("new"))
        wait_until(lambda: "new" in answers(place), 60, "the answer to the new topic's check")
        wait_until(lambda: committed(place) == 1, SECONDS, "a position in the new topic")


def test_kafka_may_go_away_and_come_back(place: Place, tmp_path: Path) -> None:
    answerer = Answerer()
    with LocalKafka(tmp_path / "kafka") as kafka, serving(place, "orders", answerer) as url:
        there = place.on(kafka.bootstrap_servers)
        there.create_topics(real_partitions=1)
        with running(there.settings(checks={"endpoints": {"orders": [url]}})) as service:
            put(there, request("before"))
            wait_until(lambda: "before" in answers(there), SECONDS, "the first answer")
            kafka.stop()
            time.sleep(4)  # a commit, of which there is one a second, is given up after 2
            assert not _dead(service)
            kafka.start()
            put(there, request("after"))
            wait_until(lambda: _dead(service) or "after" in answered(there), 60, "the answer after the outage")
    assert set(answerer.ids()) == {"before", "after"}


def test_it_says_what_ended_it(place: Place) -> None:
    options = {"client_options": {"no_such_option": 1}}
    service = CheckService(place.settings(kafka=options))
    service.start()
    try:
        wait_until(lambda: _dead(service), SECONDS, "the end of the service")
        with pytest.raises(CheckbackError, match="no_such_option"):
            service.raise_if_dead()
    finally:
        service.stop()
