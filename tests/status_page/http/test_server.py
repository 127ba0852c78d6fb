"""The server on real sockets: its port, its thread, and what it says of it."""

import asyncio
import inspect
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http import h11_impl

from checkback.exceptions import ConfigurationError
from checkback.local.kafka import free_port
from conf.settings import HttpSettings
from status_page.http.server import StatusServer
from tests.place import wait_until
from tests.status_page.browser import Place


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"hello {Request(scope).url.path}")(scope, receive, send)


@pytest.fixture
def server() -> Iterator[StatusServer]:
    made = StatusServer(HttpSettings(port=free_port()), hello)
    yield made
    made.stop()


def test_it_serves_until_it_is_stopped_and_again(server: StatusServer) -> None:
    for _ in range(2):
        assert server.start()
        assert server.start(), "a second time is harmless"
        assert httpx.get(f"{server.url}/x").text == "hello /x"
        began = time.monotonic()
        server.stop()
        server.stop()
        assert time.monotonic() - began < 2
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url)


def test_a_taken_port_is_said_at_once_and_may_be_had_later(server: StatusServer) -> None:
    with socket.create_server(("127.0.0.1", server._http.port)):
        assert not server.start()
    assert server.start()


def test_a_stopped_server_gives_its_port_back_with_a_connection_open(server: StatusServer) -> None:
    server.start()
    with httpx.Client() as client:
        client.get(server.url)
        server.stop()
        other = StatusServer(server._http, hello)
        assert other.start()
        other.stop()


def test_a_page_that_hangs_holds_up_no_stop() -> None:
    let_go, begun = threading.Event(), threading.Event()

    async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
        import anyio.to_thread  # noqa: PLC0415  (only here)

        begun.set()
        await anyio.to_thread.run_sync(let_go.wait)

    server = StatusServer(HttpSettings(port=free_port()), hangs)
    server.start()
    with socket.create_connection(("127.0.0.1", server._http.port)) as asking:
        asking.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert begun.wait(5)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 3
        again = StatusServer(server._http, hello)
        assert again.start(), "the port is free all the same"
        again.stop()
    let_go.set()


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 9_464, "http://127.0.0.1:9464"),
        ("::1", 80, "http://[::1]:80"),
        ("shop.internal", 80, "http://shop.internal:80"),
        ("0.0.0.0", 80, f"http://{socket.gethostname()}:80"),  # noqa: S104  (nothing is listened at)
        ("::", 80, f"http://{socket.gethostname()}:80"),
        ("127.0.0.1", 0, ""),
    ],
)
def test_where_people_find_it(host: str, port: int, url: str) -> None:
    assert StatusServer(HttpSettings(host=host, port=port), hello).url == url


def test_port_0_means_none() -> None:
    before = threading.active_count()
    server = StatusServer(HttpSettings(port=0), hello)
    assert server.start()
    assert threading.active_count() == before
    server.stop()


@pytest.mark.parametrize(
    ("host", "said"),
    [("192.0.2.1", "192.0.2.1 (http.host) is not an address of this machine"), ("no.such.host.invalid", "(http.host)")],
)
def test_an_address_that_is_not_this_machines_is_a_wrong_setting(host: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        StatusServer(HttpSettings(host=host, port=free_port()), hello).start()
    assert said in str(error.value)


def test_a_port_that_may_not_be_had_is_a_wrong_setting(server: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refused)
    with pytest.raises(ConfigurationError, match=r"\(http.port\) cannot be used: Permission denied"):
        server.start()


def test_it_takes_no_signals_and_logs_nothing_of_what_is_asked(
    server: StatusServer, caplog: pytest.LogCaptureFixture
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    loggers = logging.getLogger().handlers[:]
    with caplog.at_level(logging.DEBUG):
        server.start()
        httpx.get(f"{server.url}/secret")
        with socket.create_connection(("127.0.0.1", server._http.port)) as broken:
            broken.sendall(b"nonsense\r\n\r\n")
            broken.recv(100)
        assert {number: signal.getsignal(number) for number in before} == before
        server.stop()
    ours = ("uvicorn", "status_page", "checkback.answering")
    said = [one.getMessage() for one in caplog.records if one.name.startswith(ours)]
    assert said == []
    assert logging.getLogger().handlers == loggers


def test_nothing_of_it_keeps_a_process_alive(server: StatusServer) -> None:
    before = set(threading.enumerate())
    server.start()
    httpx.get(server.url)
    assert [one.name for one in threading.enumerate() if not one.daemon and one not in before] == []


def test_an_answer_does_not_wait_for_the_one_before_it_to_be_acknowledged(server: StatusServer) -> None:
    server.start()
    assert server._running is not None
    assert server._running._listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_whole_page_is_served(server: StatusServer) -> None:
    """Through threads, sockets and all, by the address and by the name."""
    place = Place()
    whole = StatusServer(server._http, place.app())
    assert whole.start()
    try:
        for host in ("127.0.0.1", "localhost"):
            answer = httpx.get(f"http://{host}:{server._http.port}/")
            assert answer.status_code == 200
            assert "Do transactions flow?" in answer.text
        assert httpx.get(f"{whole.url}/", headers={"host": "evil.example"}).status_code == 421
        assert "server" not in httpx.get(f"{whole.url}/").headers
    finally:
        whole.stop()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "status-page-http"])


def test_a_forwarded_address_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses from one address would count as those of many, or lock another address out."""

    async def address(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["client"][0])(scope, receive, send)

    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    server = StatusServer(HttpSettings(port=free_port()), address)
    server.start()
    try:
        assert httpx.get(server.url, headers={"x-forwarded-for": "192.0.2.1"}).text == "127.0.0.1"
    finally:
        server.stop()


def test_silent_connections_are_bounded_and_keep_nobody_out(server: StatusServer) -> None:
    server.start()
    before = _files()
    silent = [socket.create_connection(("127.0.0.1", server._http.port)) for _ in range(600)]
    try:
        assert httpx.get(server.url).text == "hello /"
        assert _files() - before < 600 + 150  # these are this process's, too
    finally:
        for one in silent:
            one.close()


UNFINISHED = (
    b"POST /sign-in HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n\r\nx"
)


@pytest.mark.parametrize("sent", [UNFINISHED, b"GET /"])
def test_unfinished_requests_take_nothing_away(server: StatusServer, sent: bytes) -> None:
    """100 of them failed each probe of a kubelet, which would have restarted the job again and again."""
    whole = StatusServer(server._http, Place().app())
    whole.start()
    slow = []
    try:
        for _ in range(100):
            slow.append(socket.create_connection(("127.0.0.1", server._http.port)))
            with suppress(ConnectionError):
                slow[-1].sendall(sent)
        for path in ("/healthz", "/metrics", "/", "/api/v1/status"):
            assert httpx.get(f"{whole.url}{path}", timeout=5).status_code == 200
    finally:
        for one in slow:
            one.close()
        whole.stop()


def test_an_address_has_a_share_and_probes_are_answered_beyond_it() -> None:
    let_go = asyncio.Event()
    under_way: list[Scope] = []

    async def hangs(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/hang":
            under_way.append(scope)
            await let_go.wait()
        await PlainTextResponse("answered")(scope, receive, send)

    server = StatusServer(HttpSettings(port=free_port()), hangs)
    server.start()
    hanging = []
    try:
        for _ in range(45):
            one = socket.create_connection(("127.0.0.1", server._http.port))
            one.sendall(b"GET /hang HTTP/1.1\r\nhost: localhost\r\n\r\n")
            hanging.append(one)
        wait_until(lambda: len(under_way) == 45)
        assert httpx.get(f"{server.url}/other").status_code == 503
        assert httpx.get(f"{server.url}/healthz").text == "answered"
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=elsewhere) as client:
            assert client.get(f"{server.url}/other").text == "answered"
    finally:
        for one in hanging:
            one.close()
        server.stop()


def test_who_asks_byte_by_byte_is_ended(server: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.answering.listening._Connection.idle_seconds", 0.5)
    server.start()
    with socket.create_connection(("127.0.0.1", server._http.port)) as slow:
        slow.settimeout(5)
        slow.sendall(b"GET / HTTP/1.1\r\nhost: loc")
        began = time.monotonic()
        with pytest.raises(ConnectionError):
            _sends_on(slow, began + 5)


def _sends_on(slow: socket.socket, until: float) -> None:
    while time.monotonic() < until:
        slow.sendall(b"x")
        time.sleep(0.05)


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_uvicorn_has_the_names_that_its_connections_are_bounded_by() -> None:
    """Not documented. ``pyproject.toml`` admits the versions with which the tests above pass (0.34 to 0.54)."""
    source = inspect.getsource(h11_impl)
    for name in ("connections", "cycle", "loop", "transport", "on_response_complete", "response_complete"):
        assert f"self.{name}" in source, name
    assert {"connection_made", "connection_lost", "on_response_complete"} <= vars(h11_impl.H11Protocol).keys()
    assert {"startup", "shutdown", "on_tick", "capture_signals"} <= vars(uvicorn.Server).keys()
