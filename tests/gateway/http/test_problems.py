"""What is refused is refused with words for people, and one for programs."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from checkback.kafka.signing import signed
from checkback.wire.message_json import pack
from gateway.http import problems, reading
from gateway.http.messages import TransactionBody
from gateway.load import BytesInFlight
from gateway.refusals import GatewayError, RefusalReason
from tests.gateway.http.served import GROUP, MESSAGE, STRANGER, TOKEN, Served, access_in, requested

BEGIN = f"{GROUP}/transactions"
JSON = {"content-type": "application/json"}
BODY = {"message": MESSAGE}


def problem(answer: httpx.Response, status: int, kind: str) -> str:
    """Its detail."""
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert answer.status_code == status, said
    assert (said["type"], said["status"]) == (f"urn:checkback:{kind}", status)
    assert said.keys() == {"type", "title", "status", "detail"}
    assert said["title"]
    assert said["detail"]
    return str(said["detail"])


def test_each_refusal_has_a_title_and_a_word_of_its_own() -> None:
    assert len({refusal.value.title for refusal in RefusalReason}) == len(RefusalReason)
    assert len({problems.type_of(refusal) for refusal in RefusalReason}) == len(RefusalReason)


@pytest.mark.parametrize("refusal", list(RefusalReason))
async def test_a_refusal_has_its_status(served: Served, refusal: RefusalReason) -> None:
    served.refusal = GatewayError(refusal, "So it is.")
    answer = await served.client.post(BEGIN, json=BODY)
    word = refusal.name.lower().replace("_", "-")
    assert problem(answer, refusal.value.status, word) == "So it is."
    assert answer.headers.get("retry-after") == ("1" if refusal.value.retriable else None)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/groups/shop", f"{BEGIN}/", f"{GROUP}/topics", "/metrics"])
def test_where_nothing_is(path: str) -> None:
    assert "/openapi.json" in problem(requested("GET", path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", BEGIN, {"POST"}),
        ("PUT", f"{GROUP}/messages", {"POST"}),
        ("GET", "/v1/transactions/x/commit", {"POST"}),
        ("POST", f"{GROUP}/checks", {"GET", "HEAD"}),
        ("GET", f"{GROUP}/endpoints/a", {"PUT", "DELETE"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
    ],
)
def test_another_method(method: str, path: str, allowed: set[str]) -> None:
    answer = requested(method, path)
    problem(answer, 405, "method-not-allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "text/plain"},
        {**JSON, "content-encoding": "gzip"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", BEGIN),
        ("POST", f"{GROUP}/messages"),
        ("POST", "/v1/transactions/x/commit"),
        ("PUT", f"{GROUP}/endpoints/a"),
    ],
)
def test_what_is_not_said_to_be_json(method: str, path: str, headers: dict[str, str]) -> None:
    answer = requested(method, path, content=b"{}", headers=headers)
    assert "curl --json" in problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_what_is_said_to_be_json(kind: str) -> None:
    assert requested("POST", BEGIN, content=b"{", headers={"content-type": kind}).status_code == 400


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"message": 7}', b"[" * 10_000])
def test_a_body_that_is_something_else(content: bytes) -> None:
    problem(requested("POST", BEGIN, content=content, headers=JSON), 400, "request")


@pytest.mark.parametrize("content", [b'{"remark": 7}', b'{"reason": "paid"}', b"[]", b'{"remark": null}'])
def test_an_ends_body_that_is_something_else(content: bytes) -> None:
    answer = requested("POST", "/v1/transactions/x/commit", content=content, headers=JSON)
    problem(answer, 400, "request")


@pytest.mark.parametrize(
    ("message", "status", "kind", "said"),
    [
        ({"topic": "cb.half"}, 400, "request", "one of Checkback's"),
        ({"topic": "__consumer_offsets"}, 400, "request", "Kafka's own"),
        ({"topic": "payroll"}, 404, "no-topic", "payroll"),
        ({"headers": {"cb-id": "x"}}, 400, "request", "Checkback's own"),
        ({"value": "v" * 1_001}, 413, "too-large", "gateway.max_body"),
        ({"key": "k" * 1_048_577}, 413, "too-large", "key"),
    ],
)
@pytest.mark.parametrize("call", ["transactions", "messages"])
def test_a_message_that_cannot_be(call: str, message: dict[str, Any], status: int, kind: str, said: str) -> None:
    answer = requested("POST", f"{GROUP}/{call}", json={"message": {**MESSAGE, **message}})
    assert said in problem(answer, status, kind)


@pytest.mark.parametrize("ticket", ["x", "x.y", "a" * 2_000])
def test_a_transaction_that_was_not_given_out(ticket: str) -> None:
    answer = requested("POST", f"/v1/transactions/{ticket}/commit")
    assert "gateway.secrets" in problem(answer, 400, "transaction")


@pytest.mark.parametrize("call", ["transactions", "messages", "checks", "endpoints/a"])
def test_a_group_that_cannot_be(call: str) -> None:
    method = {"checks": "GET", "endpoints/a": "DELETE"}.get(call, "POST")
    answer = requested(method, f"/v1/groups/{'g' * 256}/{call}")
    assert "cb-group must have 1 to 255 bytes" in problem(answer, 400, "request")


ALL = [
    ("POST", BEGIN, BODY),
    ("POST", f"{GROUP}/messages", BODY),
    ("GET", f"{GROUP}/checks?wait=0", None),
    ("PUT", f"{GROUP}/endpoints/a", {"url": "http://shop/"}),
    ("DELETE", f"{GROUP}/endpoints/a", None),
]


@pytest.mark.parametrize(("method", "path", "body"), [*ALL, ("POST", "/v1/transactions/x/commit", None)])
@pytest.mark.parametrize("shown", [None, "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_nobody_knows_who_asks(tmp_path: Path, method: str, path: str, body: Any, shown: str | None) -> None:
    headers = {} if shown is None else {"authorization": shown}
    answer = requested(method, path, access_in(tmp_path), json=body, headers=headers)
    problem(answer, 401, "who")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path", "body"), ALL)
async def test_another_accounts_group(tmp_path: Path, method: str, path: str, body: Any) -> None:
    served = Served(access_in(tmp_path))
    for token in (STRANGER, TOKEN):
        bearer = {"authorization": f"Bearer {token}"}
        answer = await served.client.request(method, path, json=body, headers=bearer)
        if token == STRANGER:
            assert "may not act as group shop" in problem(answer, 403, "rights")
            assert served.written == []
        else:
            assert answer.is_success


async def test_another_accounts_transaction(tmp_path: Path) -> None:
    served = Served(access_in(tmp_path))
    begun = await served.client.post(BEGIN, json=BODY, headers={"authorization": f"Bearer {TOKEN}"})
    path = f"/v1/transactions/{begun.json()['transaction']}/commit"
    answer = await served.client.post(path, headers={"authorization": f"Bearer {STRANGER}"})
    problem(answer, 403, "rights")
    assert len(served.written) == 1


def test_a_group_within_another_ones_name_has_endpoints_of_its_own(tmp_path: Path) -> None:
    """Group ``other/endpoints/a`` would have the key of none of ``other``."""
    bearer = {"authorization": f"Bearer {STRANGER}"}
    path = "/v1/groups/other%2Fendpoints%2Fa/endpoints/b"
    answer = requested("DELETE", path, access_in(tmp_path), headers=bearer)
    assert "group other/endpoints/a" in problem(answer, 403, "rights")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8082", "192.0.2.7", ""])
async def test_without_a_policy_a_rebound_name_gets_no_answer(served: Served, host: str) -> None:
    """A browser sends no Origin with a GET to what it takes for the page's own server."""
    assert "Host" in problem(
        await served.client.get(f"{GROUP}/checks?wait=0", headers={"host": host}), 421, "misdirected-request"
    )


async def test_with_a_policy_any_name_will_do(tmp_path: Path) -> None:
    served = Served(access_in(tmp_path))
    headers = {"host": "gateway.shop.internal", "authorization": f"Bearer {TOKEN}"}
    assert (await served.client.get(f"{GROUP}/checks?wait=0", headers=headers)).status_code == 200


@pytest.mark.parametrize("headers", [{"origin": "https://elsewhere"}, {"sec-fetch-site": "same-origin"}])
@pytest.mark.parametrize(("method", "path", "body"), ALL)
def test_a_page_in_a_browser_is_nobody(method: str, path: str, body: Any, headers: dict[str, str]) -> None:
    answer = requested(method, path, json=body, headers=headers)
    assert "browser" in problem(answer, 403, "rights")


def test_a_page_in_a_browser_that_shows_a_token_is_somebody(tmp_path: Path) -> None:
    headers = {"origin": "https://elsewhere", "authorization": f"Bearer {TOKEN}"}
    assert requested("POST", BEGIN, access_in(tmp_path), json=BODY, headers=headers).status_code == 201


EMPTY = b"[]," * 300_000 + b"[]]"


@pytest.mark.parametrize(
    "body",
    [
        b'{"message":{"topic":"orders","value":"x","headers":[' + EMPTY + b"}}",
        b'{"messages":[' + EMPTY + b"}",
        b'{"nobody knows it":[' + EMPTY + b"}",
        b'{"messages":[' + b'"\\\\\\"",' * 600_000 + b'""]}',
    ],
)
def test_a_body_of_very_many_values_is_not_converted(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """26 MB of them stopped the whole process for 48 s, and took 1.6 GiB."""
    monkeypatch.setattr(reading, "read_json", lambda *_: pytest.fail("it was converted"))
    answer = requested("POST", BEGIN, content=body, headers=JSON)
    assert "500,000" in problem(answer, 413, "too-large")


async def test_separators_within_texts_are_no_values() -> None:
    message = {"topic": "orders", "value": '[{"a", \\' * 50_000, "headers": {"a": '"[,'}}
    for path, body in ((BEGIN, {"messages": [message, message]}), (f"{GROUP}/messages", {"message": message})):
        served = Served(most_bytes=1 << 20)
        assert (await served.client.post(path, json=body)).status_code == 201


async def test_while_a_large_body_is_read_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    plain = reading.read_json

    def slow(body: bytes, model: Any) -> Any:
        assert let_go.wait(10)
        return plain(body, model)

    served = Served(most_bytes=1 << 20)
    async with asyncio.timeout(30):
        body = {"message": {**MESSAGE, "value": "v" * 50_000}}
        large = asyncio.ensure_future(served.client.post(BEGIN, json=body))
        await asyncio.sleep(0)
        monkeypatch.setattr(reading, "read_json", slow)
        assert (await served.client.get("/live")).status_code == 200
        let_go.set()
        assert (await large).status_code == 201


async def test_a_large_transaction_is_converted_and_signed_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of them stopped the event loop for 0.56 s."""
    threads: dict[str, str] = {}

    def noted(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            threads[name] = threading.current_thread().name
            return act(*given, **named)

        return call

    monkeypatch.setattr(TransactionBody, "all_messages", noted("messages", TransactionBody.all_messages))
    monkeypatch.setattr("gateway.transactions.signed", noted("signature", signed))
    monkeypatch.setattr("gateway.transactions.pack", noted("value", pack))
    monkeypatch.setattr("gateway.http.api.sha256", noted("digest", sha256))
    served = Served(access_in(tmp_path), most_bytes=1 << 20)
    headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": "a"}
    body = {"messages": [{**MESSAGE, "value": "v" * 500}] * 50}
    assert (await served.client.post(BEGIN, json=body, headers=headers)).status_code == 201
    assert threads == dict.fromkeys(("messages", "signature", "value", "digest"), "gateway-bodies_0")


async def test_an_account_holds_no_more_bytes_than_it_leaves_free(tmp_path: Path) -> None:
    """40 bodies that did not come to their end held 1.06 GiB."""
    arrived = asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        yield b" " * 60_000
        arrived.set()
        await asyncio.Event().wait()

    served = Served(access_in(tmp_path))
    served.accounts.in_flight = BytesInFlight(130_000)
    served.client.headers.update({**JSON, "authorization": f"Bearer {TOKEN}"})
    some = b" " * 20_000
    slow = asyncio.ensure_future(served.client.post(BEGIN, content=unfinished()))
    await arrived.wait()
    answer = await served.client.post(BEGIN, content=some)
    assert answer.headers["retry-after"] == "1"
    problem(answer, 429, "busy")
    theirs = {"authorization": f"Bearer {STRANGER}"}
    answer = await served.client.post("/v1/groups/other/transactions", content=some, headers=theirs)
    assert answer.status_code == 400, "another account has room"
    slow.cancel()
    await asyncio.wait([slow])
    assert (await served.client.post(BEGIN, content=some)).status_code == 400, "the room is free again"


async def test_a_body_that_does_not_end_is_not_read_to_its_end(served: Served) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 65_536

    async with asyncio.timeout(60):
        problem(
            await served.client.post("/v1/transactions/x/commit", content=endless(), headers=JSON), 413, "too-large"
        )
    assert sent <= 3


async def test_what_fails_is_said_without_its_insides(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gateway.http.api"):
        served.refusal = RuntimeError("an inside")
        answer = await served.client.post(BEGIN, json=BODY)
    assert "an inside" not in answer.text
    problem(answer, 500, "failed")
    assert "an inside" in caplog.text


async def test_a_client_that_goes_while_it_posts_is_no_failure(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    scope = {"type": "http", "method": "POST", "path": BEGIN, "query_string": b"", "headers": []}

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        """Nobody reads it."""

    await served.app(scope, receive, send)
    assert served.written == []
    assert caplog.records == []


async def test_a_body_that_does_not_end_keeps_no_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_SECONDS", 0.05)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    assert "within 0.05 s" in problem(
        await served.client.post(BEGIN, content=endless(), headers=JSON), 408, "request-timeout"
    )
