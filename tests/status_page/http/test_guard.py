"""What stands before every page."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from tests.status_page.browser import TOKEN, URL, Browser, Place, doubtful

PATHS = ("/", "/transactions", "/transactions/0:0", "/transactions/9:9", "/parked", "/groups", "/sign-in", "/decide")
OTHERS = ("/metrics", "/healthz", "/style.css", "/icon.svg", "/api/v1/status", "/api/v1/openapi.json", "/nowhere")


@pytest.mark.parametrize("path", [*PATHS, *OTHERS])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9464", "192.0.2.7", "127.0.0.1.evil.example", "", "[::2]:9464"]
)
def test_a_name_that_is_not_this_machines_gets_nothing(path: str, host: str) -> None:
    answer = Place().browser().get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "does not know" in answer.text
    assert "http.names" in answer.text


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:9464", "127.0.0.1", "localhost:1", "LOCALHOST.", "[::1]:9464", "127.8.8.8"),
        *("status.shop.internal", "STATUS.shop.internal:80", "[2001:db8::5]:9464", socket.gethostname()),
    ],
)
def test_names_of_this_machine_and_those_in_the_settings_are_known(host: str) -> None:
    place = Place(names=["status.shop.internal", "[2001:db8::5]"])
    assert place.browser().get("/healthz", headers={"host": host}).status_code == 200


def test_the_address_that_was_connected_to_is_known() -> None:
    there = Place().browser(url="http://10.1.2.3:9464")
    assert there.get("/healthz").status_code == 200
    assert there.get("/healthz", headers={"host": "10.1.2.4"}).status_code == 421


def test_a_request_has_one_host() -> None:
    browser = Place().browser()
    request = httpx.Request("GET", "http://127.0.0.1:9464/", headers=[("host", "localhost"), ("host", "evil.example")])
    assert browser.send(request).status_code == 400


@pytest.mark.parametrize("path", [*PATHS, *OTHERS])
def test_browsers_are_told_what_they_may_do(path: str) -> None:
    place = Place()
    place.doubt(doubtful())
    answer = place.browser().get(path, follow_redirects=True)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    kept = answer.headers["cache-control"]
    assert kept == ("no-store" if path not in {"/style.css", "/icon.svg"} else kept)
    assert "<script" not in answer.text
    assert " style=" not in answer.text
    assert " on" not in [word[:3] for word in answer.text.split("<") if "=" in word.partition(">")[0]]


def test_a_page_that_fails_says_so_and_nothing_gets_out(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.view.fails = ZeroDivisionError("secret")
    browser = place.browser()
    with caplog.at_level(logging.ERROR):
        for path in ("/", "/healthz", "/api/v1/status", "/groups"):
            answer = browser.get(path)
            assert answer.status_code == 500
            assert "The job goes on" in answer.text
            assert "secret" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
    assert [record.getMessage() for record in caplog.records] == [
        "The page / could not be made; said at most once a minute."
    ]


def test_what_is_no_request_is_left_alone() -> None:
    app: Any = Place().app()

    async def never(*_: object) -> None:
        raise AssertionError

    anyio.run(app, {"type": "websocket", "path": "/", "headers": []}, never, never)


def test_a_form_that_does_not_come_to_its_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("status_page.pages.forms._SECONDS", 0.05)

    async def posted(path: str, kind: str) -> int:
        async def slow() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        headers = {"content-type": kind, "authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(Place().app())
        async with httpx.AsyncClient(transport=transport, base_url=URL, timeout=10) as client:
            return (await client.post(path, content=slow(), headers=headers)).status_code

    assert asyncio.run(posted("/sign-in", "application/x-www-form-urlencoded")) == 408
    assert asyncio.run(posted("/api/v1/decisions", "application/json")) == 408


@pytest.mark.parametrize("path", ["/", "/transactions", "/metrics", "/api/v1/status", "/decided/x"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_forms_are_posted(method: str, path: str) -> None:
    assert Place().browser().request(method, path).status_code == 405


def test_the_stylesheet_changes_its_address_with_its_content() -> None:
    browser: Browser = Place().browser()
    page = browser.get("/").text
    address = page.split('rel="stylesheet" href="')[1].split('"')[0]
    answer = browser.get(address)
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert "url(" not in answer.text
    assert "@import" not in answer.text
