"""The check endpoint: its answers over HTTP, and its announcement in a real Kafka."""

import asyncio
import dataclasses
import json
import os
import socket
import threading
import time
from typing import Any

import httpx
import pytest
from anyio import to_thread
from kafka.errors import KafkaTimeoutError
from starlette.applications import Starlette
from starlette.routing import Mount

from checkback import (
    CallableListener,
    CheckEndpoint,
    CheckRequest,
    ConfigurationError,
    EndpointAnnouncer,
    HalfPosition,
    LocalTransactionState,
    check_app,
)
from checkback.answering import endpoint
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.checks import Announcement, announcement_key
from checkback.wire.protocol import Topics
from checkback.wire.signature import signed_headers
from tests.place import Place, wait_until

REQUEST = CheckRequest("tx", "orders", "paid", b"k", b"v", [("a", b"\x00")], HalfPosition(1, 2), 1, 15, 1_000)


class Answerer:
    """A listener that answers with whatever it is given, and raises an exception it is given."""

    def __init__(self, answer: Any = LocalTransactionState.COMMIT) -> None:
        self.asked: list[CheckRequest] = []
        self._answer = answer

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[no-any-return]  # some tests give what is not a state


def never(_: Any, __: Any = None) -> LocalTransactionState:
    raise AssertionError("nobody may call this")


def request(
    app: Any, body: Any, method: str = "POST", path: str = "/", headers: dict[str, str] | None = None
) -> httpx.Response:
    """Send a body, as JSON unless it is bytes, to an application without a network."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def sent() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            return await client.request(method, path, content=content, headers=headers)

    return asyncio.run(sent())


@pytest.mark.parametrize("state", [*LocalTransactionState, "commit", "rollback"])
def test_the_listeners_answer_is_given(state: str) -> None:
    listener = Answerer(state)
    answer = request(check_app(listener, "orders"), REQUEST.to_json())
    assert answer.status_code == 200
    assert answer.json() == {"state": str(state), "remark": ""}
    assert listener.asked == [REQUEST]


@pytest.mark.parametrize(
    ("raised", "remark"),
    [
        (LookupError("no such row"), "check_local_transaction raised LookupError('no such row')"),
        (LookupError("\ud800"), r"check_local_transaction raised LookupError('\ud800')"),
    ],
)
def test_an_exception_is_unknown_and_told(raised: Exception, remark: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = request(check_app(Answerer(raised), "orders"), REQUEST.to_json())
    assert answer.status_code == 200
    assert answer.json() == {"state": "unknown", "remark": remark}
    assert "The check of tx raised" in caplog.text


@pytest.mark.parametrize("nothing", [None, "perhaps", 1])
def test_an_answer_that_is_none_is_unknown(nothing: Any) -> None:
    answer = request(check_app(Answerer(nothing), "orders"), REQUEST.to_json())
    assert answer.status_code == 200
    assert answer.json()["state"] == "unknown"
    assert "check_local_transaction raised ValueError" in answer.json()["remark"]


def test_another_group_is_not_answered_for() -> None:
    listener = Answerer()
    answer = request(check_app(listener, "invoices"), REQUEST.to_json())
    assert answer.status_code == 404
    assert answer.json() == {"error": "This endpoint answers for group invoices."}
    assert listener.asked == []


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"commit", b"\xff", b"[" * 100_000),
        *([], None, {}),
        {**REQUEST.to_json(), "version": 2},
        {**REQUEST.to_json(), "half": "1"},
        {**REQUEST.to_json(), "payload": "no base64!"},
        {**REQUEST.to_json(), "attempt": float("inf")},
    ],
    ids=lambda body: str(body)[:20],
)
def test_what_is_no_check_is_refused(body: Any) -> None:
    listener = Answerer()
    answer = request(check_app(listener, "orders"), body)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert listener.asked == []


OTHERS = [dataclasses.replace(REQUEST, transaction_id=f"tx-{number}") for number in range(3)]


def several(*requests: CheckRequest, **more: Any) -> dict[str, Any]:
    return {"version": 1, "checks": [one.to_json() for one in requests], **more}


def test_several_checks_are_answered_each_under_its_id() -> None:
    listener = Answerer()
    answer = request(check_app(listener, "orders"), several(*OTHERS))
    assert answer.status_code == 200
    answers = sorted(answer.json()["answers"], key=lambda one: str(one["id"]))
    assert answers == [{"id": f"tx-{number}", "state": "commit", "remark": ""} for number in range(3)]
    assert sorted(one.transaction_id for one in listener.asked) == ["tx-0", "tx-1", "tx-2"]


def test_one_of_several_that_raises_spoils_no_other() -> None:
    def check(asked: CheckRequest) -> LocalTransactionState:
        if asked.transaction_id == "tx-1":
            raise LookupError("x" * 1_000)
        return LocalTransactionState.COMMIT

    app = check_app(CallableListener(lambda *_: LocalTransactionState.UNKNOWN, check), "orders")
    answers = {one["id"]: one for one in request(app, several(*OTHERS)).json()["answers"]}
    assert [answers[f"tx-{number}"]["state"] for number in range(3)] == ["commit", "unknown", "commit"]
    assert len(answers["tx-1"]["remark"]) == 512


def test_those_of_several_that_are_late_are_left_out() -> None:
    ending = threading.Event()

    def check(asked: CheckRequest) -> LocalTransactionState:
        if asked.transaction_id == "tx-1":
            ending.wait(30)
        return LocalTransactionState.COMMIT

    listener = CallableListener(lambda *_: LocalTransactionState.UNKNOWN, check)
    try:
        answer = request(check_app(listener, "orders", batch_ms=300), several(*OTHERS))
    finally:
        ending.set()
    assert sorted(one["id"] for one in answer.json()["answers"]) == ["tx-0", "tx-2"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (several(), 400),
        (several(REQUEST, version=2), 400),
        (several(REQUEST, version="1"), 400),
        (several(*[REQUEST] * 101), 400),
        ({"checks": 7}, 400),
        ({"checks": [7]}, 400),
        ({"checks": None}, 400),
        (several(REQUEST, dataclasses.replace(REQUEST, group="bills")), 404),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_batch_is_refused_as_a_whole(body: Any, status: int) -> None:
    listener = Answerer()
    assert request(check_app(listener, "orders"), body).status_code == status
    assert listener.asked == []


KEY = "the group's secret"


def signed(body: bytes, key: str = KEY, time_ms: int = 1_000) -> dict[str, str]:
    return signed_headers(key.encode(), time_ms, body)


def test_with_a_key_a_signed_request_is_answered() -> None:
    body = json.dumps(REQUEST.to_json()).encode()
    app = check_app(Answerer(), "orders", key=KEY, clock_ms=lambda: 301_000)
    assert request(app, body, headers=signed(body)).json()["state"] == "commit"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "is missing"),
        (signed(b"another body"), "does not fit"),
        (signed(json.dumps(REQUEST.to_json()).encode(), key="another key"), "does not fit"),
        (signed(json.dumps(REQUEST.to_json()).encode(), time_ms=999), "300000 ms away"),
    ],
)
def test_with_a_key_nobody_else_is_answered(headers: dict[str, str], reason: str) -> None:
    listener = Answerer()
    app = check_app(listener, "orders", key=KEY, clock_ms=lambda: 301_000)
    answer = request(app, REQUEST.to_json(), headers=headers)
    assert answer.status_code == 401
    assert reason in answer.json()["error"]
    assert listener.asked == []


def test_the_signature_is_judged_before_the_body() -> None:
    assert request(check_app(Answerer(), "orders", key=KEY), b"garbage").status_code == 401


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="key is empty"):
        check_app(Answerer(), "orders", key=key)


def test_a_large_body_is_refused() -> None:
    body = json.dumps(REQUEST.to_json()).encode()
    assert request(check_app(Answerer(), "orders", max_body_bytes=len(body)), body).status_code == 200
    answer = request(check_app(Answerer(), "orders", max_body_bytes=len(body) - 1), body)
    assert answer.status_code == 413
    assert answer.json() == {"error": f"The body is longer than {len(body) - 1} bytes."}


def test_many_headers_are_refused() -> None:
    headers = {f"x-{number}": "y" for number in range(65)}
    assert request(check_app(Answerer(), "orders"), REQUEST.to_json(), headers=headers).status_code == 431


def test_it_takes_posts_only() -> None:
    assert request(check_app(Answerer(), "orders"), REQUEST.to_json(), "GET").status_code == 405


def test_two_checks_are_answered_side_by_side() -> None:
    together = threading.Barrier(2)

    def check(_: CheckRequest) -> LocalTransactionState:
        together.wait(10)
        return LocalTransactionState.COMMIT

    app = check_app(CallableListener(lambda *_: LocalTransactionState.UNKNOWN, check), "orders")

    async def both() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
            return await asyncio.gather(*(client.post("/", json=REQUEST.to_json()) for _ in range(2)))

    assert [answer.json()["state"] for answer in asyncio.run(both())] == ["commit", "commit"]


@pytest.mark.parametrize("batch", [1, 60])
def test_a_storm_of_checks_leaves_the_applications_threads_alone(batch: int) -> None:
    full, release, under_way = threading.Event(), threading.Event(), 0
    most, lock = 0, threading.Lock()

    def check(_: CheckRequest) -> LocalTransactionState:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        if most >= 4:
            full.set()
        release.wait(20)
        with lock:
            under_way -= 1
        return LocalTransactionState.COMMIT

    app = check_app(CallableListener(never, check), "orders", threads=4, batch_ms=20_000)
    checks = [REQUEST.to_json() for _ in range(batch)]
    body = json.dumps(checks[0] if batch == 1 else {"version": 1, "checks": checks}).encode()

    async def stormed() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app", timeout=30) as client:
            storm = [asyncio.create_task(client.post("/", content=body)) for _ in range(60)]
            assert await asyncio.to_thread(full.wait, 20)
            # the application's own requests, which have 40 threads
            assert await asyncio.wait_for(to_thread.run_sync(lambda: "well"), 10) == "well"
            release.set()
            return [answer.status_code for answer in await asyncio.gather(*storm)]

    assert asyncio.run(stormed()) == [200] * 60
    assert most == 4


def test_it_may_be_mounted_in_another_application() -> None:
    app = Starlette(routes=[Mount("/checkback", check_app(Answerer(), "orders"))])
    assert request(app, REQUEST.to_json(), path="/checkback/").json()["state"] == "commit"
    # without the slash the application redirects, which the check service does not follow: docs/protocol.md
    assert request(app, REQUEST.to_json(), path="/checkback").status_code == 307


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
    wait_until(lambda: len(announcements(place)) >= 3, 20, "two heartbeats")
    announcer.close()
    announcer.close()
    *beats, (last_key, last_value) = announcements(place)
    assert {key for key, _ in beats} == {last_key}
    assert {Announcement.from_record(value or b"").url for _, value in beats} == {"http://shop:80/checks/"}
    assert last_value is None


def test_a_heartbeat_that_fails_is_not_the_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_HEARTBEAT_SECONDS", 0.05)
    announcer = EndpointAnnouncer(place.bootstrap_servers, "orders", "http://shop:80/", topics=place.topics)
    failed = threading.Event()
    send = announcer._kafka.send

    def send_but_once(*arguments: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise KafkaTimeoutError("no room in the buffer")
        return send(*arguments)

    monkeypatch.setattr(announcer._kafka, "send", send_but_once)
    try:
        assert failed.wait(10)
        before = len(announcements(place))
        wait_until(lambda: len(announcements(place)) > before, 5, "another heartbeat")
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
