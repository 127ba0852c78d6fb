"""What does not stop the check service, and what the next one does."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from checkback import CheckEndpoint
from checkback.exceptions import CheckbackError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import HEADER_VERSION, ID
from checkers import CheckService, clients
from tests.checkers.service.scene import (
    SECONDS,
    Answerer,
    actions,
    answered,
    answers,
    committed,
    put,
    request,
    running,
    serving,
    url_of,
)
from tests.place import HALF_PARTITIONS, Place, wait_until


def put_raw(place: Place, topic: str, value: bytes | None, key: bytes | None, headers: list[Any] | None = None) -> None:
    """Write a record that our own client might refuse, into partition 0."""
    producer = Producer({"bootstrap.servers": place.bootstrap_servers})
    producer.produce(topic, value, key, 0, headers=headers)
    assert producer.flush(SECONDS) == 0


def members(place: Place) -> list[Any]:
    """Who is in the check services' group."""
    group = f"{place.topics.prefix}checkers"
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    return list(admin.describe_consumer_groups([group])[group].result(SECONDS).members)


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
                wait_until(lambda: bool(answers(place)), "an answer")
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
        wait_until(lambda: _dead(service) or "good" in answers(place), "the good one's answer")
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
            wait_until(lambda: _dead(service) or bool(answers(place)), "the good one's answer")
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
        wait_until(lambda: _dead(service) or bool(answers(place)), "an answer")
    assert set(actions(place).values()) <= {"unreachable", "unknown"}


def _dead(service: CheckService) -> bool:
    return service._failure is not None


def test_an_answered_check_is_not_asked_again_by_the_next_service(place: Place) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        settings = place.settings(checks={"endpoints": {"orders": [url]}})
        with running(settings):
            put(place, request("first"))
            wait_until(lambda: "first" in answers(place), "the first answer")
        with running(settings):
            put(place, request("second"))
            wait_until(lambda: "second" in answers(place), "the second answer")
    assert answerer.ids() == ["first", "second"]


def test_a_check_not_answered_is_asked_again_by_the_next_service(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url, serving(place, "invoices", answerer) as invoices:
        hanging = {"endpoints": {"orders": [url_of(silent)], "invoices": [invoices]}, "ask_timeout": "60s"}
        with running(place.settings(checks=hanging)):
            put(place, request("hangs"), request("answered", "invoices"))
            wait_until(lambda: "answered" in answers(place), "the answer behind the one that hangs")
        assert answerer.ids() == ["answered"]
        with running(place.settings(checks={"endpoints": {"orders": [url], "invoices": [invoices]}})):
            wait_until(lambda: "hangs" in answerer.ids(), "the question that was not answered")
            wait_until(lambda: len(place.read(place.topics.op)) == 3, "its answer")
    # what lies behind it was not committed either: asked at least once, here twice
    assert sorted(answerer.ids()) == ["answered", "answered", "hangs"]


def test_a_topic_of_checks_that_is_made_again_is_read_from_its_beginning(place: Place) -> None:
    answerer, admin = Answerer(), AdminClient({"bootstrap.servers": place.bootstrap_servers})
    with serving(place, "orders", answerer) as url, running(place.settings(checks={"endpoints": {"orders": [url]}})):
        put(place, *(request(f"former-{number}") for number in range(5)))
        wait_until(lambda: committed(place) == 5, "the answers to the former topic's checks")
        admin.delete_topics([place.topics.check])[place.topics.check].result(SECONDS)
        wait_until(lambda: place.topics.check not in admin.list_topics().topics, "the topic's end")
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.create_one(place.topics.check, HALF_PARTITIONS)
        put(place, request("new"))
        wait_until(lambda: "new" in answers(place), "the answer to the new topic's check")  # metadata, twice
        wait_until(lambda: committed(place) == 1, "a position in the new topic")


def test_an_answer_is_written_when_the_op_topic_has_its_partition(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clients, "_METADATA_MS", 500)
    answerer = Answerer()
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.grow(place.topics.half, HALF_PARTITIONS + 1)
        wait_until(lambda: administration.partitions([place.topics.half]) == {place.topics.half: HALF_PARTITIONS + 1})
    with (
        serving(place, "orders", answerer) as url,
        running(place.settings(checks={"endpoints": {"orders": [url]}})),
    ):
        put(place, request("grown", partition=HALF_PARTITIONS), request("other"))
        wait_until(lambda: "answers that are refused" in caplog.text, "a refusal")
        wait_until(lambda: "other" in answers(place), "the answer of another")
        assert committed(place) in {None, 0}, "the next service asks again"
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.grow(place.topics.op, HALF_PARTITIONS + 1)
        wait_until(lambda: "grown" in answers(place), "the answer that was refused")
        wait_until(lambda: committed(place) == 2, "the position behind it")
    assert answerer.ids().count("grown") == 1


def test_kafka_may_go_away_and_come_back(place: Place, tmp_path: Path) -> None:
    answerer = Answerer()
    with LocalKafka(tmp_path / "kafka") as kafka, serving(place, "orders", answerer) as url:
        there = place.on(kafka.bootstrap_servers)
        there.create_topics(real_partitions=1)
        with running(there.settings(checks={"endpoints": {"orders": [url]}})) as service:
            put(there, request("before"))
            wait_until(lambda: "before" in answers(there), "the first answer")
            kafka.stop()
            time.sleep(4)  # a commit, of which there is one a second, is given up after 2
            assert not _dead(service)
            kafka.start()
            put(there, request("after"))
            wait_until(lambda: _dead(service) or "after" in answered(there), "the answer after the outage")
    assert set(answerer.ids()) == {"before", "after"}


def test_it_says_what_ended_it(place: Place) -> None:
    options = {"client_options": {"no_such_option": 1}}
    service = CheckService(place.settings(kafka=options))
    service.start()
    try:
        wait_until(lambda: _dead(service), "the end of the service")
        with pytest.raises(CheckbackError, match="no_such_option"):
            service.raise_if_dead()
    finally:
        service.stop()
