"""One question to one endpoint: whatever that does, a verdict comes back."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from checkback import CallableListener, CheckRequest, HalfPosition, LocalTransactionState, check_app
from checkback.protocol import Action
from checkers import Asker, Verdict

URL = "http://endpoint/"
REQUEST = CheckRequest(
    transaction_id="tx-17",
    group="orders",
    topic="paid",
    key=None,
    value=b"\x00\xff",
    headers=[("trace-id", b"\x00"), ("trace-id", b"")],
    half=HalfPosition(3, 81_923),
    attempt=1,
    check_max=15,
    born_ms=1_767_225_600_000,
)


def ask(transport: httpx.AsyncBaseTransport | None, url: str = URL, seconds: float = 5.0) -> Verdict:
    """Ask as the service does, over this transport or, without one, over the network."""

    async def asked() -> Verdict:
        async with httpx.AsyncClient(transport=transport, timeout=seconds, trust_env=False) as client:
            return await Asker(client).ask(url, REQUEST)

    return asyncio.run(asked())


def ask_app(endpoint: Callable[[Request], Awaitable[Response]]) -> Verdict:
    return ask(httpx.ASGITransport(Starlette(routes=[Route("/", endpoint, methods=["POST"])])))


def ask_for(body: bytes, headers: dict[str, str] | None = None, status: int = 200) -> Verdict:
    """Ask an endpoint that answers with these bytes."""
    return ask(httpx.MockTransport(lambda _: httpx.Response(status, content=body, headers=headers)))


def never(_: Any, __: Any = None) -> LocalTransactionState:
    raise AssertionError("nobody may call this")


@pytest.mark.parametrize("state", LocalTransactionState)
def test_our_endpoint_is_asked_with_the_whole_request(state: LocalTransactionState) -> None:
    asked: list[CheckRequest] = []

    def check(request: CheckRequest) -> LocalTransactionState:
        asked.append(request)
        return state

    verdict = ask(httpx.ASGITransport(check_app(CallableListener(never, check), "orders")))
    assert verdict == Verdict(Action(state), "")
    assert asked == [REQUEST]


def test_a_listener_that_raises_is_unknown_and_says_why() -> None:
    def check(_: CheckRequest) -> LocalTransactionState:
        raise LookupError("no such database")

    verdict = ask(httpx.ASGITransport(check_app(CallableListener(never, check), "orders")))
    assert verdict == Verdict(Action.UNKNOWN, "check_local_transaction raised LookupError('no such database')")


def test_the_endpoint_of_another_group_has_no_verdict() -> None:
    verdict = ask(httpx.ASGITransport(check_app(CallableListener(never, never), "invoices")))
    assert verdict == Verdict(Action.UNKNOWN, f"{URL} answered with status 404")


@pytest.mark.parametrize("status", [201, 204, 400, 404, 405, 429, 500, 503])
def test_a_verdict_under_another_status_than_200_is_none(status: int) -> None:
    verdict = ask_for(b'{"state": "commit"}', status=status)
    assert verdict == Verdict(Action.UNKNOWN, f"{URL} answered with status {status}")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"commit",
        b"<html>commit</html>",
        b"\xff\xfe\x00",
        b"null",
        b'"commit"',
        b'["commit"]',
        b"{}",
        b'{"verdict": "commit"}',
        b'{"state": "Commit"}',
        b'{"state": "COMMIT"}',
        b'{"state": "commit "}',
        b'{"state": "unreachable"}',
        b'{"state": null}',
        b'{"state": ["commit"]}',
        b'{"state": {"commit": 1}}',
        b'{"state": 1}',
        b'{"state": "commit"} trailing',
        b"[" * 200_000,
        b"1" * 10_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_without_a_verdict_is_unknown(body: bytes) -> None:
    verdict = ask_for(body)
    assert verdict.action is Action.UNKNOWN
    assert verdict.remark.startswith(f"{URL} answered with no verdict: ")
    assert len(verdict.remark) < 1_000


@pytest.mark.parametrize("charset", ["undefined", "hex", "rot13", "idna", "no-such-charset"])
def test_a_strange_charset_is_unknown(charset: str) -> None:
    assert ask_for(b"x\xff", {"Content-Type": f"text/html; charset={charset}"}).action is Action.UNKNOWN


def test_a_body_that_cannot_be_unpacked_is_unknown() -> None:
    assert ask_for(b'{"state": "commit"}', {"Content-Encoding": "gzip"}).action is Action.UNKNOWN


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (None, ""),
        ("", ""),
        ("order 17 is in the database", "order 17 is in the database"),
        (17, "17"),
        ("x" * 600, "x" * 512),
        ("ü" * 600, "ü" * 512),
        ("\ud800", "\ud800"),
    ],
)
def test_the_remark_is_kept_up_to_512_characters(said: Any, kept: str) -> None:
    body = json.dumps({"state": "rollback", "remark": said}).encode()
    assert ask_for(body) == Verdict(Action.ROLLBACK, kept)


def test_a_verdict_needs_no_remark() -> None:
    assert ask_for(b'{"state": "commit"}') == Verdict(Action.COMMIT, "")


def test_redirects_are_not_followed() -> None:
    visited: list[str] = []

    async def redirect(_: Request) -> Response:
        visited.append("/")
        return RedirectResponse("/elsewhere", status_code=307)

    async def elsewhere(_: Request) -> Response:
        visited.append("/elsewhere")
        return JSONResponse({"state": "commit"})

    routes = [Route("/", redirect, methods=["POST"]), Route("/elsewhere", elsewhere, methods=["POST"])]
    assert ask(httpx.ASGITransport(Starlette(routes=routes))).action is Action.UNKNOWN
    assert visited == ["/"]


def test_the_question_is_json_in_a_post() -> None:
    async def answer(request: Request) -> Response:
        assert request.headers["content-type"] == "application/json"
        assert CheckRequest.from_json(await request.json()) == REQUEST
        return JSONResponse({"state": "commit"})

    assert ask_app(answer) == Verdict(Action.COMMIT, "")


def test_plain_text_is_no_verdict() -> None:
    async def answer(_: Request) -> Response:
        return PlainTextResponse("commit")

    assert ask_app(answer) == Verdict(Action.UNKNOWN, f"{URL} answered with no verdict: 'commit'")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port nobody listens on, and nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_refused_connection_is_unreachable(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}/"
    verdict = ask(None, url)
    assert verdict.action is Action.UNREACHABLE
    assert verdict.remark.startswith(f"{url}: ConnectError(")


def test_an_endpoint_that_takes_the_question_and_never_answers_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        verdict = ask(None, f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.2)
    assert verdict.action is Action.UNKNOWN
    assert "ReadTimeout" in verdict.remark


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (httpx.ConnectError("refused"), Action.UNREACHABLE),
        (httpx.ConnectTimeout("no route"), Action.UNREACHABLE),
        (httpx.PoolTimeout("all taken"), Action.UNREACHABLE),
        (httpx.ReadTimeout("slow"), Action.UNKNOWN),
        (httpx.WriteTimeout("slow"), Action.UNKNOWN),
        (httpx.ReadError("reset"), Action.UNKNOWN),
        (httpx.WriteError("reset"), Action.UNKNOWN),
        (httpx.CloseError("reset"), Action.UNKNOWN),
        (httpx.RemoteProtocolError("no HTTP"), Action.UNKNOWN),
        (httpx.LocalProtocolError("no HTTP"), Action.UNKNOWN),
        (httpx.DecodingError("no gzip"), Action.UNKNOWN),
        (httpx.ProxyError("no proxy"), Action.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_only_who_could_not_be_reached_is_unreachable(error: Exception, action: Action) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    verdict = ask(httpx.MockTransport(fail))
    assert verdict == Verdict(action, f"{URL}: {error!r}")


class _Torn(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"state": "comm'
        raise httpx.ReadError("the connection broke")


def test_half_an_answer_is_unknown() -> None:
    assert ask(httpx.MockTransport(lambda _: httpx.Response(200, stream=_Torn()))).action is Action.UNKNOWN


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://a\x00b/", "http://\ud800/", f"http://{'ä' * 80}/", "http://127.0.0.1:nine/"],
)
def test_a_url_that_is_none_is_unreachable(url: str) -> None:
    assert ask(None, url).action is Action.UNREACHABLE


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://127.0.0.1/", "http:///path", "http://127.0.0.1:99999/"])
def test_other_strange_urls_raise_nothing(url: str) -> None:
    assert ask(None, url).action in {Action.UNKNOWN, Action.UNREACHABLE}
