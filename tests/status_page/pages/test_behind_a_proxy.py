"""The pages under a path that a proxy puts before them and takes off: ``https://proxy/checkback/``."""

import re
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

from starlette.types import Receive, Scope, Send

from tests.status_page.browser import Browser, Place, doubtful, field, given_up

PREFIX = "/checkback"
FIRST = f"https://proxy{PREFIX}/"


class Proxy:
    """Hands on what is below its path, without that path."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, raw = scope["path"], scope["raw_path"]
        assert path.startswith(f"{PREFIX}/"), path
        below = {"path": path.removeprefix(PREFIX), "raw_path": raw.removeprefix(PREFIX.encode())}
        await self._app({**scope, **below}, receive, send)


def behind_proxy() -> Browser:
    place = Place(names=["proxy"])
    place.story = []
    place.doubt(doubtful(0), doubtful(1))
    place.park(given_up(2), given_up(3))
    return Browser(Proxy(place.app()), url="https://proxy")


def links(page: str, address: str) -> set[str]:
    found = re.findall(r'<(?:a|form|link)\b[^>]* (?:href|action)="([^"]*)"', page)
    return {urljoin(address, unescape(one)).partition("#")[0] for one in found}


def test_every_link_leads_to_a_page_below_the_proxys_path() -> None:
    browser = behind_proxy()
    seen: set[str] = set()
    waiting = [FIRST, f"{FIRST}transactions/a%2Fb%3Fc", f"{FIRST}no/such/page"]
    while waiting:
        address = waiting.pop()
        seen.add(address)
        answer = browser.get(address)
        assert answer.status_code in {200, 303} or "no/such" in address, address
        found = {str(answer.next_request.url)} if answer.next_request else links(answer.text, address)
        assert {one for one in found if not one.startswith(FIRST)} == set(), address
        waiting += [one for one in found if one not in seen and not one.endswith("/sign-out") and "%3F" not in one]
    pages = {urlsplit(one).path.removeprefix(PREFIX) for one in seen}
    assert pages >= {"/", "/parked", "/groups", "/transactions/0:0/story", "/sign-in", "/style.css", "/metrics"}


def test_who_signs_in_behind_a_proxy_decides_and_signs_out() -> None:
    browser = behind_proxy()
    page = browser.get(f"{FIRST}sign-in?next=%2Fparked")
    fields = {"form_token": field(page, "form_token"), "next": field(page, "next"), "token": "sixteen characters"}
    answer = browser.post(f"{FIRST}sign-in", data=fields)
    assert answer.next_request is not None
    assert str(answer.next_request.url) == f"{FIRST}parked"
    assert "path=" not in str(answer.headers).lower(), "no other application behind the proxy gets the session"
    parked = f"{FIRST}parked?group=orders"
    page = browser.get(f"{FIRST}decide?action=resume&what=2:2+px-2", headers={"referer": parked})
    assert parked in links(page.text, f"{FIRST}decide")
    fields = {"who": "Ada", "why": "x", "action": "resume", "what": "2:2 px-2", "form_token": field(page, "form_token")}
    written = browser.post(f"{FIRST}decide", data=fields)
    assert written.next_request is not None
    assert str(written.next_request.url).startswith(f"{FIRST}decided/")
    out = browser.post(f"{FIRST}sign-out", data={"form_token": fields["form_token"]})
    assert out.next_request is not None
    assert str(out.next_request.url) == FIRST
    assert "Sign out" not in browser.get(FIRST).text
