"""One question to one endpoint: whatever that does, a verdict comes back."""

import asyncio
import contextlib
import errno
import gzip
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from checkback import CallableListener, CheckRequest, LocalTransactionState, check_app
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action
from checkers.ask import Asker, EndpointAnswer, EndpointVerdict
from checkers.directory import Endpoint
from checkers.http.admission import AllowList
from checkers.http.session import open_session, tls_context
from conf.settings import CheckSettings
from tests.checkers.asking import REQUEST, ask_about, never
from tests.checkers.serving import http, serving, serving_app

URL = "http://endpoint/"


def ask(url: str, **settings: Any) -> EndpointVerdict:
    [verdict] = ask_about(url, [REQUEST], **settings).verdicts
    return verdict


def ask_app(endpoint: Callable[[Request], Awaitable[Response]]) -> EndpointVerdict:
    with serving_app(Starlette(routes=[Route("/", endpoint, methods=["POST"])])) as url:
        return ask(url)


def ask_for(body: bytes, *headers: str, status: str = "200 OK") -> EndpointVerdict:
    """Ask an endpoint that answers with these bytes."""
    with serving(http(body, status, *headers)) as served:
        verdict = ask(served.url)
        return verdict._replace(remark=verdict.remark.replace(served.url, URL))


@pytest.mark.parametrize("state", LocalTransactionState)
def test_our_endpoint_is_asked_with_the_whole_request(state: LocalTransactionState) -> None:
    asked: list[CheckRequest] = []

    def check(request: CheckRequest) -> LocalTransactionState:
        asked.append(request)
        return state

    with serving_app(check_app(CallableListener(never, check), "orders")) as url:
        verdict = ask(url)
    assert verdict == EndpointVerdict(Action(state), "")
    assert asked == [REQUEST]


def test_a_password_in_the_address_is_sent_and_not_said() -> None:
    with serving(http(b'{"state": "?"}')) as served:
        host = served.url.removeprefix("http://")
        said = ask(f"http://shop:secret@{host}").remark
        assert b"Basic c2hvcDpzZWNyZXQ=" in served.requests[0][0]
    assert said.startswith(f"http://shop:**********@{host} answered with no verdict")
    for host in ("127.0.0.1:1/", "169.254.169.254/", "host:99999/", "/"):
        remark = ask(f"http://shop:secret@{host}").remark
        assert "secret" not in remark, host


def test_a_listener_that_raises_is_unknown_and_says_why() -> None:
    def check(_: CheckRequest) -> LocalTransactionState:
        raise LookupError("no such database")

    with serving_app(check_app(CallableListener(never, check), "orders")) as url:
        verdict = ask(url)
    assert verdict == EndpointVerdict(Action.UNKNOWN, "check_local_transaction raised LookupError('no such database')")


def test_the_endpoint_of_another_group_is_no_endpoint_of_this_group() -> None:
    with serving_app(check_app(CallableListener(never, never), "invoices")) as url:
        verdict = ask(url)
    reason = "status 404, application/json"
    assert verdict == EndpointVerdict(Action.UNREACHABLE, f"{url}: no check endpoint answered: {reason}")


def test_an_application_that_fails_uses_up_an_attempt() -> None:
    verdict = ask_for(b'{"state": "commit"}', status="500 Internal Server Error")
    assert verdict == EndpointVerdict(Action.UNKNOWN, f"{URL} answered with no verdict: status 500")


@pytest.mark.parametrize("status", [201, 204, 400, 401, 403, 404, 405, 429, 502, 503, 504])
def test_an_answer_that_no_check_endpoint_gives_uses_up_no_attempt(status: int) -> None:
    body = b"" if status == 204 else b"<html>\n No \xff"
    verdict = ask_for(body, status=f"{status} No")
    assert verdict == EndpointVerdict(Action.UNREACHABLE, f"{URL}: no check endpoint answered: status {status}")


@pytest.mark.parametrize(
    "body", [b"", b"<html>commit</html>", b"null", b"commit", b"{}", b'{"error": "no state"', b"x" * 70_000]
)
def test_a_200_that_is_no_answer_to_a_check_uses_up_no_attempt(body: bytes) -> None:
    verdict = ask_for(body)
    assert verdict.action is Action.UNREACHABLE
    assert verdict.remark == f"{URL}: no check endpoint answered: status 200"


@pytest.mark.parametrize(
    "body",
    [
        b'{"state": "Commit"}',
        b'{"state": "COMMIT"}',
        b'{"state": "commit "}',
        b'{"state": "unreachable"}',
        b'{"state": null}',
        b'{"state": ["commit"]}',
        b'{"state": {"commit": 1}}',
        b'{"state": 1}',
        b'{"state": "commit"} trailing',
        b'{"state":' * 6_000,
        b'{"state": "comm',
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_without_a_verdict_is_unknown(body: bytes) -> None:
    verdict = ask_for(body)
    assert verdict.action is Action.UNKNOWN
    assert verdict.remark.startswith(f"{URL} answered with no verdict: ")
    assert len(verdict.remark) < 1_000


@pytest.mark.parametrize("charset", ["undefined", "hex", "rot13", "idna", "no-such-charset"])
def test_a_strange_charset_is_no_check_endpoints(charset: str) -> None:
    assert ask_for(b"x\xff", f"Content-Type: text/html; charset={charset}").action is Action.UNREACHABLE


def test_a_packed_body_is_no_check_endpoints() -> None:
    body = gzip.compress(b'{"state": "commit"}')
    assert ask_for(body, "Content-Encoding: gzip").action is Action.UNREACHABLE


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
    assert ask_for(body) == EndpointVerdict(Action.ROLLBACK, kept)


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("delivered", LaneFact.DELIVERED),
        ("settled", LaneFact.SETTLED),
        ("lost", None),
        (1, None),
        (["settled"], None),
        (None, None),
    ],
)
def test_an_answer_may_say_what_the_lane_has_done(said: object, fact: LaneFact | None) -> None:
    assert ask_for(json.dumps({"state": "commit", "lane": said}).encode()) == EndpointVerdict(Action.COMMIT, "", fact)


def test_a_verdict_needs_no_remark() -> None:
    assert ask_for(b'{"state": "commit"}') == EndpointVerdict(Action.COMMIT, "")


def test_redirects_are_not_followed() -> None:
    visited: list[str] = []

    async def redirect(_: Request) -> Response:
        visited.append("/")
        return RedirectResponse("/elsewhere", status_code=307)

    async def elsewhere(_: Request) -> Response:
        visited.append("/elsewhere")
        return JSONResponse({"state": "commit"})

    routes = [Route("/", redirect, methods=["POST"]), Route("/elsewhere", elsewhere, methods=["POST"])]
    with serving_app(Starlette(routes=routes)) as url:
        assert ask(url) == EndpointVerdict(Action.UNREACHABLE, f"{url}: no check endpoint answered: status 307")
    assert visited == ["/"]


def test_a_mount_path_without_its_slash_is_no_check_endpoint() -> None:
    app = Starlette(routes=[Mount("/checkback", check_app(CallableListener(never, never), "orders"))])
    with serving_app(app) as url:
        remark = ask(f"{url}checkback").remark
        assert remark == f"{url}checkback: no check endpoint answered: status 307"


def test_the_question_is_json_in_a_post() -> None:
    async def answer(request: Request) -> Response:
        assert request.headers["content-type"] == "application/json"
        assert CheckRequest.from_json(await request.json()) == REQUEST
        return JSONResponse({"state": "commit"})

    assert ask_app(answer) == EndpointVerdict(Action.COMMIT, "")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port nobody listens on, and nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_refused_connection_is_unreachable(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}/"
    asked = ask_about(url, [REQUEST])
    assert asked.verdicts[0].action is Action.UNREACHABLE
    assert asked.verdicts[0].remark == asked.failure
    assert asked.failure == f"{url}: no connection: Connection refused"


def test_an_endpoint_that_takes_the_question_and_never_answers_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        asked = ask_about(url, [REQUEST], ask_timeout="200ms")
    assert asked.verdicts[0].action is Action.UNKNOWN
    assert asked.failure == f"{url}: no complete answer in time"


def test_a_tls_handshake_that_never_ends_is_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        verdict = ask(url, ask_timeout="200ms")
    assert verdict == EndpointVerdict(Action.UNREACHABLE, f"{url}: no connection in time")


def test_a_host_that_is_not_found_is_unreachable() -> None:
    verdict = ask("http://no-such-host.invalid/")
    assert verdict.action is Action.UNREACHABLE
    assert verdict.remark.startswith("http://no-such-host.invalid/: host name not found: ")


def test_a_connection_closed_without_an_answer_is_unknown_and_says_so() -> None:
    with serving(b"") as served:
        verdict = ask(served.url)
    assert verdict == EndpointVerdict(Action.UNKNOWN, f"{served.url}: closed the connection without an answer")


def test_a_host_that_is_not_allowed_is_said_without_noise(closed_port: int) -> None:
    url = f"http://localhost:{closed_port}/"
    verdict = ask(url, allowed_hosts=["10.0.0.0/8"])
    assert verdict == EndpointVerdict(
        Action.UNREACHABLE, f"{url}: localhost at 127.0.0.1 is not in checks.allowed_hosts"
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100 + b'Content-Length: 19\r\n\r\n{"state": "commit"}',
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20_000 + b'\r\nContent-Length: 19\r\n\r\n{"state": "commit"}',
    ],
    ids=["no HTTP", "too many headers", "a header too long"],
)
def test_an_answer_that_is_not_valid_http_uses_up_no_attempt(answer: bytes) -> None:
    with serving(answer) as served:
        asked = ask_about(served.url, [REQUEST])
    assert asked.verdicts == [EndpointVerdict(Action.UNREACHABLE, asked.failure)]
    assert "the answer is not valid HTTP" in asked.failure


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"state": "comm',
        http(b'{"state": "commit"}' + b" " * 65_536),
    ],
    ids=["nothing", "half a body", "a body too long"],
)
def test_an_answer_that_breaks_off_or_is_too_large_is_unknown_and_no_failure(answer: bytes) -> None:
    with serving(answer) as served:
        asked = ask_about(served.url, [REQUEST])
    assert asked.verdicts[0].action is Action.UNKNOWN
    assert asked.failure == ""


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1", "http://a\x00b/", "http://\ud800/", f"http://{'ä' * 80}/", "http://127.0.0.1:nine/"),
        *("", "nonsense", "ftp://127.0.0.1/", "http:///path", "http://127.0.0.1:99999/", "http://2130706433/"),
    ],
)
def test_a_url_that_is_none_is_unreachable(url: str) -> None:
    assert ask(url).action is Action.UNREACHABLE


@pytest.mark.parametrize("url", ["http://169.254.169.254/", "http://[fe80::1]/", "http://[::ffff:169.254.1.1]/"])
def test_an_address_that_is_never_asked_is_unreachable_and_says_why(url: str) -> None:
    verdict = ask(url)
    assert verdict.action is Action.UNREACHABLE
    assert "a link-local, multicast or unspecified address" in verdict.remark


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.0.1."])
def test_a_host_in_an_odd_notation_is_refused_by_us(host: str) -> None:
    with serving(http(b'{"state": "commit"}')) as served:
        verdict = ask(f"http://{host}:{served.port}/")
        assert served.requests == []
    assert verdict.action is Action.UNREACHABLE
    assert "is not a way to write an address: write four decimal numbers" in verdict.remark


@pytest.mark.parametrize(
    ("allowed", "host", "action"),
    [
        (["127.0.0.0/8"], "127.0.0.1", Action.COMMIT),
        (["127.0.0.0/8"], "localhost", Action.COMMIT),
        (["local*"], "localhost", Action.COMMIT),
        (["LOCALHOST"], "localhost", Action.COMMIT),
        (["localhost"], "127.0.0.1", Action.UNREACHABLE),
        (["10.0.0.0/8"], "localhost", Action.UNREACHABLE),
        (["10.0.0.0/8", "*.shops.internal"], "127.0.0.1", Action.UNREACHABLE),
    ],
)
def test_only_allowed_hosts_are_asked(allowed: list[str], host: str, action: Action) -> None:
    with serving(http(b'{"state": "commit"}')) as served:
        verdict = ask(f"http://{host}:{served.port}/", allowed_hosts=allowed)
        assert verdict.action is action
        assert len(served.requests) == (action is Action.COMMIT)
    assert ("is not in checks.allowed_hosts" in verdict.remark) == (action is Action.UNREACHABLE)


def test_out_of_files_is_nobodys_fault_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: Any, **__: Any) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async def asked_twice(url: str) -> tuple[EndpointAnswer, EndpointAnswer]:
        checks = CheckSettings()
        async with open_session(checks, AllowList([]), tls_context(checks)) as session:
            asker = Asker(session, AllowList([]))
            with monkeypatch.context() as patched:
                patched.setattr(socket, "socket", no_more)
                first = await asker.ask(Endpoint(url), [REQUEST])
            return first, await asker.ask(Endpoint(url), [REQUEST])

    with serving(http(b'{"state": "commit"}')) as served:
        first, second = asyncio.run(asked_twice(served.url))
    assert "Too many open files" in first.lacking
    assert (first.verdicts, first.failure) == ([], "")
    assert second.verdicts == [EndpointVerdict(Action.COMMIT, "")]


def test_no_more_connections_are_kept_than_may_be_idle() -> None:
    async def asked(urls: list[str]) -> int:
        checks = CheckSettings()
        async with open_session(checks, AllowList([]), tls_context(checks), idle=2) as session:
            asker = Asker(session, AllowList([]))
            for url in urls:
                [verdict] = (await asker.ask(Endpoint(url), [REQUEST])).verdicts
                assert verdict.action is Action.COMMIT
            assert session.connector is not None
            return sum(map(len, session.connector._conns.values()))

    with contextlib.ExitStack() as stack:
        app = check_app(CallableListener(never, lambda _: LocalTransactionState.COMMIT), "orders")
        urls = [stack.enter_context(serving_app(app)) for _ in range(5)]
        assert asyncio.run(asked(urls)) == 2
