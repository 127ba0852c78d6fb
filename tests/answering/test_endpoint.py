"""The check endpoint: its answers over HTTP, and its announcement in a real Kafka."""

import asyncio
import dataclasses
import json
import threading
from typing import Any

import httpx
import pytest
from anyio import to_thread
from starlette.applications import Starlette
from starlette.routing import Mount

from checkback import (
    CallableListener,
    CheckRequest,
    ConfigurationError,
    LocalTransactionState,
    check_app,
)
from checkback.answering import check_requests
from checkback.wire import json_reading
from checkback.wire.signature import signed_headers
from tests.answering.endpoint import KEY, REQUEST, Answerer, request


def never(_: Any, __: Any = None) -> LocalTransactionState:
    raise AssertionError("nobody may call this")


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


def signed(body: bytes, key: str = KEY, time_ms: int = 1_000) -> dict[str, str]:
    return signed_headers(key.encode(), time_ms, body)


def test_with_a_key_a_signed_request_is_answered() -> None:
    body = json.dumps(REQUEST.to_json()).encode()
    app = check_app(Answerer(), "orders", key=KEY, clock_ms=lambda: 901_000)
    assert request(app, body, headers=signed(body)).json()["state"] == "commit"


def test_while_a_key_is_changed_both_are_answered() -> None:
    body = json.dumps(REQUEST.to_json()).encode()
    app = check_app(Answerer(), "orders", key=["the old one", "the new one"], clock_ms=lambda: 901_000)
    for key, status in (("the old one", 200), ("the new one", 200), ("another", 401)):
        assert request(app, body, headers=signed(body, key)).status_code == status


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "is missing"),
        (signed(b"another body"), "does not fit"),
        (signed(json.dumps(REQUEST.to_json()).encode(), key="another key"), "does not fit"),
        (signed(json.dumps(REQUEST.to_json()).encode(), time_ms=999), "900000 ms away"),
    ],
)
def test_with_a_key_nobody_else_is_answered(headers: dict[str, str], reason: str) -> None:
    listener = Answerer()
    app = check_app(listener, "orders", key=KEY, clock_ms=lambda: 901_000)
    answer = request(app, REQUEST.to_json(), headers=headers)
    assert answer.status_code == 401
    assert reason in answer.json()["error"]
    assert listener.asked == []


def test_the_signature_is_judged_before_the_body() -> None:
    assert request(check_app(Answerer(), "orders", key=KEY), b"garbage").status_code == 401


@pytest.mark.parametrize("key", ["", " ", [], ["one", ""]])
def test_an_empty_key_is_refused(key: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="key is empty"):
        check_app(Answerer(), "orders", key=key)


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be a text"):
        check_app(Answerer(), "orders", key=[b"a key"])  # type: ignore[list-item]  # that is the mistake


def test_a_large_body_is_refused() -> None:
    body = json.dumps(REQUEST.to_json()).encode()
    assert request(check_app(Answerer(), "orders", max_body_bytes=len(body)), body).status_code == 200
    answer = request(check_app(Answerer(), "orders", max_body_bytes=len(body) - 1), body)
    assert answer.status_code == 413
    assert answer.json() == {"error": f"The body is longer than {len(body) - 1} bytes."}


def test_many_headers_are_refused() -> None:
    headers = {f"x-{number}": "y" for number in range(65)}
    assert request(check_app(Answerer(), "orders"), REQUEST.to_json(), headers=headers).status_code == 431


def test_of_an_address_no_more_bytes_are_read_than_are_left_for_others() -> None:
    """200 unfinished bodies of 8 MiB held 1.4 GiB."""
    app, body = check_app(Answerer(), "orders"), json.dumps(REQUEST.to_json()).encode()
    with check_requests.IN_FLIGHT.of("127.0.0.1") as take:
        take(48 << 20)
        answer = request(app, body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert request(app, body).status_code == 200
    with check_requests.IN_FLIGHT.of("192.0.2.1") as take:
        take(40 << 20)
        assert request(app, body).status_code == 200


def read_of(app: Any, *parts: dict[str, Any], headers: tuple[tuple[bytes, bytes], ...] = ()) -> tuple[int, int]:
    """The status, and how many parts of the request were read; it does not come to its end."""
    left, statuses = list(parts), list[int]()

    async def receive() -> dict[str, Any]:
        return left.pop(0) if left else await asyncio.Event().wait()  # type: ignore[return-value]  # it never comes

    async def send(message: dict[str, Any]) -> None:
        if "status" in message:
            statuses.append(message["status"])

    sent = [(b"content-type", b"application/json"), *headers]
    asyncio.run(app({"type": "http", "method": "POST", "path": "/", "headers": sent}, receive, send))
    return statuses[0], len(parts) - len(left)


JSON = {"content-type": "application/json"}
PART = {"type": "http.request", "body": b"{", "more_body": True}


@pytest.mark.parametrize(
    "shown",
    [
        (),
        ((b"checkback-time", b"1000"),),
        ((b"checkback-time", b"now"), (b"checkback-signature", b"0" * 64)),
        ((b"checkback-time", b"1000"), (b"checkback-signature", b"0")),
    ],
)
def test_without_a_signature_no_body_is_read(shown: tuple[tuple[bytes, bytes], ...]) -> None:
    app = check_app(Answerer(), "orders", key=KEY)
    assert read_of(app, PART, headers=shown) == (401, 0)


def test_a_body_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_requests, "_BODY_SECONDS", 0.1)
    assert read_of(check_app(Answerer(), "orders"), PART, PART) == (408, 2)


def test_a_client_that_leaves_is_no_failure() -> None:
    assert read_of(check_app(Answerer(), "orders"), PART, {"type": "http.disconnect"}) == (400, 2)


@pytest.mark.parametrize("body", [b"[" * 8_000_000, b"[" + b"{}," * 2_000_000 + b"{}]"], ids=["nested", "objects"])
def test_a_body_of_very_many_values_is_not_converted(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Converting one of 8 MiB stopped the loop for 6.7 s."""
    monkeypatch.setattr(check_requests, "read_json", lambda *_: pytest.fail("it was converted"))
    answer = request(check_app(Answerer(), "orders"), body)
    assert (answer.status_code, answer.json()["error"][:26]) == (400, "The body has more than 500")


def test_a_deeply_nested_body_is_refused() -> None:
    assert request(check_app(Answerer(), "orders"), b"[" * 60 + b"]" * 60).json()["error"] == "it is nested too deeply"


def test_of_a_check_with_very_many_headers_none_is_converted() -> None:
    answer = request(check_app(Answerer(), "orders"), {**REQUEST.to_json(), "headers": [["a", ""]] * 1_001})
    assert (answer.status_code, "1,000 headers" in answer.json()["error"]) == (400, True)
    whole = {**REQUEST.to_json(), "headers": [["a", ""]] * 1_000}
    assert request(check_app(Answerer(), "orders"), whole).status_code == 200


def test_a_large_body_is_converted_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, plain = list[bool](), json_reading.read_json

    def noted(body: bytes) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return plain(body)

    monkeypatch.setattr(check_requests, "read_json", noted)
    for size in (10, 20_000):
        asked = dataclasses.replace(REQUEST, value=b"v" * size)
        assert request(check_app(Answerer(), "orders"), asked.to_json()).status_code == 200
    assert threads == [True, False]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
    ],
)
def test_no_page_of_a_browser_is_answered(headers: dict[str, str], status: int) -> None:
    listener = Answerer()
    assert request(check_app(listener, "orders"), REQUEST.to_json(), headers=headers).status_code == status
    assert bool(listener.asked) == (status == 200)


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
            storm = [asyncio.create_task(client.post("/", content=body, headers=JSON)) for _ in range(60)]
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
