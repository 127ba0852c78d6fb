"""An endpoint that announces itself, and how it ends."""

import os
import socket
import threading
import time
from typing import Any

import httpx
import pytest
from kafka.errors import KafkaTimeoutError

from checkback import (
    CallableListener,
    CheckEndpoint,
    ConfigurationError,
    EndpointAnnouncer,
    LocalTransactionState,
)
from checkback.answering import endpoint
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.checks import Announcement, announcement_key
from checkback.wire.protocol import SIGNATURE, Topics
from checkback.wire.signed_records import SigningKey, WrittenSignature, place_of, spelled_content
from tests.answering.endpoint import KEY, REQUEST, Answerer
from tests.checkers.serving import http, serving
from tests.place import Place, wait_until


def announcements(place: Place) -> list[tuple[bytes, bytes | None]]:
    return [(record.key, record.value) for record in place.read(place.topics.producers)]


def test_an_endpoint_announces_itself_answers_and_takes_it_back(place: Place) -> None:
    listener = Answerer()
    with CheckEndpoint(place.bootstrap_servers, "orders", listener, topics=place.topics) as served:
        [(key, value)] = announcements(place)
        announced = Announcement.from_record(value or b"")
        assert (announced.group, announced.url) == ("orders", served.url)
        assert key == announcement_key("orders", announced.instance)
        answer = httpx.post(announced.url, json=REQUEST.to_json(), trust_env=False)
        assert answer.json() == {"state": "commit", "remark": ""}
        assert listener.asked == [REQUEST]
        assert len(announcements(place)) == 1
    assert announcements(place)[1:] == [(key, None)]
    with pytest.raises(httpx.ConnectError):
        httpx.post(announced.url, json=REQUEST.to_json(), trust_env=False)


def test_a_batch_and_topics_are_announced(place: Place) -> None:
    with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), answers_for=["paid"], topics=place.topics):
        [(_, value)] = announcements(place)
    announced = Announcement.from_record(value or b"")
    assert (announced.batch, announced.topics) == (100, ("paid",))


def test_with_a_key_of_the_account_what_it_announces_is_signed_and_so_is_that_it_ends(place: Place) -> None:
    signing = SigningKey("shop-1", "a" * 40)
    with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics, signing=signing):
        pass
    records = place.read(place.topics.producers)
    assert [record.value is None for record in records] == [False, True]
    for record in records:
        said = WrittenSignature.parse(dict(record.headers)[SIGNATURE])
        assert said is not None
        content = spelled_content(record.key, record.value, b"")
        assert said.fits(signing, place_of(place.topics.producers, 0), b"", content)


def test_an_endpoint_with_a_key_wants_signatures(place: Place) -> None:
    with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), key=KEY, topics=place.topics) as served:
        assert httpx.post(served.url, json=REQUEST.to_json(), trust_env=False).status_code == 401


def test_closing_before_the_start_is_harmless() -> None:
    served = CheckEndpoint("nowhere:1", "orders", Answerer())
    served.close()
    served.close()
    assert served._socket.fileno() == -1


def test_closing_again_is_harmless(place: Place) -> None:
    served = CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics).start()
    served.close()
    served.close()
    assert len(announcements(place)) == 2


def test_a_forked_child_does_not_keep_the_port_open() -> None:
    """Checks would come to it, and nobody would answer."""
    served = CheckEndpoint("nowhere:1", "orders", Answerer())
    port = httpx.URL(served.url).port or 0
    may_end, ending = os.pipe()
    is_up, coming_up = os.pipe()
    child = os.fork()
    if child == 0:  # only system calls from here on: this is a copy of pytest
        os.close(ending)
        os.write(coming_up, b".")  # what is done after a fork has been done
        os.read(may_end, 1)
        os._exit(0)
    try:
        assert os.read(is_up, 1) == b"."
        served.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        for one in (ending, may_end, is_up, coming_up):
            os.close(one)
        os.waitpid(child, 0)


def test_two_endpoints_of_a_group_do_not_replace_each_other(place: Place) -> None:
    with (
        CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics) as one,
        CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics) as other,
    ):
        said = dict(announcements(place))
        assert {Announcement.from_record(value or b"").url for value in said.values()} == {one.url, other.url}


def test_an_application_with_a_server_of_its_own_announces_that(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_HEARTBEAT_SECONDS", 0.05)
    announcer = EndpointAnnouncer(place.bootstrap_servers, "orders", "http://shop:80/checks/", topics=place.topics)
    wait_until(lambda: len(announcements(place)) >= 3, "two heartbeats")
    announcer.close()
    announcer.close()
    *beats, (last_key, last_value) = announcements(place)
    assert {key for key, _ in beats} == {last_key}
    assert {Announcement.from_record(value or b"").url for _, value in beats} == {"http://shop:80/checks/"}
    assert last_value is None


def test_an_announcer_probes_its_url_once_and_warns_of_a_login(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint, "_HEARTBEAT_SECONDS", 0.05)
    with serving(http(b"Log in", "302 Found", "Location: /login/")) as login:
        url = login.url.replace("//", "//shop:secret@")
        announcer = EndpointAnnouncer(place.bootstrap_servers, "orders", url, topics=place.topics)
        wait_until(lambda: len(announcements(place)) >= 4 and bool(caplog.messages), "heartbeats and a warning")
        announcer.close()
    assert len(login.requests) == 1
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"No check endpoint answers at {login.url}: status 302 to /login/, 'Log in'. ")


def test_a_heartbeat_that_fails_is_not_the_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_HEARTBEAT_SECONDS", 0.05)
    announcer = EndpointAnnouncer(place.bootstrap_servers, "orders", "http://shop:80/", topics=place.topics)
    failed = threading.Event()
    send = announcer._kafka.send

    def send_but_once(*arguments: Any, **named: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise KafkaTimeoutError("no room in the buffer")
        return send(*arguments, **named)

    monkeypatch.setattr(announcer._kafka, "send", send_but_once)
    try:
        assert failed.wait(10)
        before = len(announcements(place))
        wait_until(lambda: len(announcements(place)) > before, "another heartbeat")
    finally:
        announcer.close()


def test_without_kafka_it_says_so_and_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        server = f"127.0.0.1:{bound.getsockname()[1]}"
        served = CheckEndpoint(server, "orders", Answerer(), kafka_options={"bootstrap_timeout_ms": 300})
        try:
            with pytest.raises(ConfigurationError, match=f"No Kafka answers at {server}"):
                served.start()
            left = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
        finally:
            served.close()
    assert "checkback-endpoint" not in left


def test_closing_while_kafka_is_away_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with LocalKafka() as kafka:
        with TopicAdministration(kafka.bootstrap_servers) as administration:
            administration.create_one(Topics().producers, 1)
        with CheckEndpoint(kafka.bootstrap_servers, "shop", CallableListener(_never, _never)):
            kafka.kill()
            began = time.monotonic()
    assert time.monotonic() - began < 15
    assert "could not be taken back, and lapses" in caplog.text


def _never(*_: object) -> LocalTransactionState:
    raise AssertionError
