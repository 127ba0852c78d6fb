"""How templates become pages."""

import asyncio
import threading
from typing import Any

import httpx
import pytest
from jinja2 import Template

from tests.status_page.browser import URL
from tests.status_page.pages.test_pages import busy


def test_few_pages_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """90 at once had 40 threads, which kept the loop waiting for the interpreter."""
    place, now, most, lock = busy(), 0, 0, threading.Lock()
    plain, full = Template.render, threading.Barrier(4)  # as many come together

    def noted(self: Template, *given: Any, **named: Any) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        full.wait(20)
        with lock:
            now -= 1
        return plain(self, *given, **named)

    monkeypatch.setattr(Template, "render", noted)
    app = place.app()

    async def asked() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
            answers = await asyncio.gather(*(client.get("/transactions") for _ in range(12)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(asked()) == [200] * 12
    assert most == 4
