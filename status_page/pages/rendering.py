"""Templates to pages. All text is escaped, and what could turn or break a line is spelled out."""

import hashlib
import re
import threading
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from checkback.wire.printable import printable
from status_page import words
from status_page.facts import JobFacts
from status_page.site import Site
from status_page.transactions import lists
from status_page.transactions.deciding import actions_for, chosen_of

REFRESH_SECONDS = 10
_MAKING = 4
"""Pages at once: many threads would keep the interpreter from the server's loop."""
_LINKS = re.compile(r'(?<= )(href|action)="/')
"""Of our own pages, as templates write them; what others have written has no such quotation marks."""


class Pages:
    """Makes pages of templates."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._making = threading.Semaphore(_MAKING)
        # autoescaped; finalize is for text that others have written, which may hold control characters
        self._templates = Environment(
            loader=PackageLoader("status_page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=_finalized,
        )
        self._templates.filters.update(
            utc=words.utc,
            machine_time=words.machine_time,
            age=words.age,
            duration=words.duration,
            number=words.number,
            size=words.size,
            total=lists.said,
        )
        self._templates.globals.update(
            actions_for=actions_for,
            chosen_of=chosen_of,
            count=words.count,
            link=link,
            why=words.why_in_doubt,
            attempts=words.said_attempts,
        )

    def page(
        self,
        request: Request,
        template: str,
        title: str,
        shown: Mapping[str, Any],
        *,
        status: int = 200,
        facts: JobFacts | None = None,
        refresh: int = 0,
    ) -> HTMLResponse:
        """A page. ``shown``: what its template shows beside what all do; ``facts``: of the job, where they were asked
        for already; ``refresh``: seconds after which it is loaded again, unless its reader has paused that.
        """
        paused, facts = "refresh" in request.query_params, facts or self._site.facts()
        with self._making:
            text = self._templates.get_template(template).render(
                title=title,
                path=request.url.path,
                query=[(name, value) for name, value in request.query_params.multi_items() if name != "refresh"],
                refresh=0 if paused else refresh,
                refreshes=bool(refresh),
                paused=paused,
                facts=facts,
                now=self._site.now_ms(),
                standing=self._site.standing,
                session=self._site.session(request),
                can_act=self._site.signing_in.possible,
                style=f"/style.css?v={style()[1]}",
                **shown,
            )
        return HTMLResponse(_LINKS.sub(rf'\1="{_first_page(request)}', text), status)


def redirect(request: Request, path: str) -> RedirectResponse:
    """Send the browser to another page of ours."""
    return RedirectResponse(_first_page(request) + path.removeprefix("/"), 303)


def _first_page(request: Request) -> str:
    """The first page, relative to this one: a proxy may serve all pages under a path that it does not hand on."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return "../" * (raw.count(b"/") - 1) or "./"


@cache
def style() -> tuple[str, str]:
    """The stylesheet, and what changes in its URL when it does."""
    text = files("status_page").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return text, hashlib.sha256(text.encode()).hexdigest()[:12]


def link(path: str, query: Any = ()) -> str:
    """A path with a query, of pairs or of a dict; empty values are left out."""
    pairs = query.items() if isinstance(query, dict) else query
    said = urlencode([(name, value) for name, value in pairs if value != ""])
    return f"{path}?{said}" if said else path


def _finalized(value: Any) -> Any:
    return printable(value) if type(value) is str else value
