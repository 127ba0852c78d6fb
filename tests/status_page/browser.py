"""Asks the page without a network, as a browser would, with cookies and redirects."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import anyio
import httpx
from prometheus_client import CollectorRegistry, Counter
from starlette.applications import Starlette

from checkback.operations.in_doubt import InDoubt
from checkback.operations.lanes import Findings
from checkback.operations.operator_ops import OperatorOps, Row
from checkback.operations.parked import ParkedMessage
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import UNDELIVERABLE, Action, HalfPosition
from conf import Settings
from status_page.app import site_app
from status_page.facts import BatchFacts, GroupFacts, JobFacts
from status_page.http.signing_in import SigningIn
from status_page.site import Site
from status_page.transactions.deciding import Deciding
from status_page.transactions.transaction_story import Story, Told
from tests.status_page.sample import SampleTransactions

TOKEN = "sixteen characters"  # noqa: S105  (of a page that decides nothing)
NOW_MS = 1_800_000_000_000
URL = "http://127.0.0.1:9464"


class FixedView:
    """A job that always stands the same way. ``fails``: it cannot be asked."""

    def __init__(self, **facts: Any) -> None:
        self.facts_given = JobFacts(
            **{
                "job": "shop",
                "version": "1.2.3",
                "run": "r1",
                "host": "h1",
                "kafka": "k:9092",
                "topic_prefix": "cb.",
                "checkpoint": "/c",
                "started_ms": NOW_MS - 60_000,
                "now_ms": NOW_MS,
                **facts,
            }
        )
        self.asked = 0
        self.fails: Exception | None = None

    def facts(self) -> JobFacts:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return self.facts_given


class RecordingOps(OperatorOps):
    """Takes ops, or raises."""

    def __init__(self) -> None:
        self.written: list[tuple[Row, Action, str]] = []
        self.facts: list[LaneFact | None] = []
        self.fails: Exception | None = None
        self.filed: list[bytes] = []
        self.not_filed: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of: object) -> None:
        pass

    def file(self, value: bytes) -> tuple[int, int, int]:
        if self.not_filed is not None:
            raise self.not_filed
        self.filed.append(value)
        return 0, len(self.filed) - 1, NOW_MS

    def write(self, rows: Iterable[Row], action: Action, remark: str = "", fact: LaneFact | None = None) -> int:
        if self.fails is not None:
            raise self.fails
        some = [(row, action, remark) for row in rows]
        self.written += some
        self.facts += [fact] * len(some)
        return len(some)


class Place:
    """A page with nothing on it yet, and what it is made from."""

    def __init__(self, token: str = TOKEN, names: Iterable[str] = (), **facts: Any) -> None:
        self.settings = Settings.model_validate({"http": {"token": token, "names": list(names)}})
        self.view = FixedView(**facts)
        self.transactions = SampleTransactions(self.settings)
        self.index = self.transactions.index
        self.ops = RecordingOps()
        self.clock = 0.0
        self.registry = CollectorRegistry()
        Counter("checkback_things", "Things", registry=self.registry).inc()
        self.signing_in = SigningIn(token, lambda: self.clock)
        self.lanes: Findings = {}
        self.deciding = Deciding(self.index, lambda: self.ops, lambda: NOW_MS, lambda _: self.lanes)
        self.story: list[Told] | Exception | None = None
        self.tells: Story = self._told

    def app(self) -> Starlette:
        story = None if self.story is None else self.tells
        parts = (self.settings, self.view, self.transactions, self.registry, self.deciding, self.signing_in, story)
        return site_app(Site(*parts, lambda: NOW_MS))

    def batch_ends(self) -> None:
        """The job has begun one after all that was written."""
        batch = BatchFacts(7, NOW_MS + 2_000, 1.0)
        self.view.facts_given = replace(self.view.facts_given, batch=batch)

    def browser(self, **options: Any) -> "Browser":
        return Browser(self.app(), **options)

    def doubt(self, *rows: InDoubt) -> None:
        self.index.take_status((row.half, row) for row in rows)

    def park(self, *rows: ParkedMessage) -> None:
        self.index.take_parked((row.half, row.transaction_id, row) for row in rows)

    def _told(self, _: HalfPosition) -> list[Told]:
        if isinstance(self.story, Exception):
            raise self.story
        return self.story or []


class Browser(httpx.Client):
    """``client``: the address that it has."""

    def __init__(self, app: Any, client: str = "127.0.0.1", url: str = URL) -> None:
        super().__init__(transport=_Direct(app, client), base_url=url)

    def sign_in(self, token: str = TOKEN, onward: str = "/") -> httpx.Response:
        page = self.get("/sign-in", params={"next": onward})
        fields = {"form_token": field(page, "form_token"), "next": field(page, "next"), "token": token}
        return self.post("/sign-in", data=fields)

    def decide(self, action: str, *names: str, **fields: str) -> httpx.Response:
        """By the confirmation page's own form."""
        page = self.get("/decide", params={"action": action, "what": names})
        given = {"who": "Ada", "why": "she looked", "form_token": field(page, "form_token"), "action": action}
        return self.post("/decide", data={**given, "what": list(names), **fields})


class _Direct(httpx.BaseTransport):
    def __init__(self, app: Any, client: str) -> None:
        self._app = httpx.ASGITransport(app, client=(client, 50_000))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def answered() -> httpx.Response:
            body = httpx.ByteStream(request.read())
            asked = httpx.Request(request.method, request.url, headers=request.headers, stream=body)
            answer = await self._app.handle_async_request(asked)
            return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return anyio.run(answered)


def target(answer: httpx.Response) -> str:
    """The path and query that an answer leads to."""
    assert answer.next_request is not None, answer
    return answer.next_request.url.raw_path.decode()


def field(page: httpx.Response, name: str) -> str:
    """What a hidden field of a page says; empty when there is none."""
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', page.text)
    return found[1] if found else ""


def doubtful(offset: int = 0, **given: Any) -> InDoubt:
    """A row that was taken in a minute ago, and asked about ten seconds ago."""
    row = InDoubt(
        *(f"tx-{offset}", "orders", "shop.orders", HalfPosition(offset % 4, offset), 3, 15),
        *(NOW_MS - 60_000 + offset, NOW_MS - 10_000, "unknown", NOW_MS + 20_000),
    )
    return row._replace(**given)


def given_up(offset: int = 0, *, undecided: bool = True, **given: Any) -> ParkedMessage:
    """A message that was parked an hour ago."""
    reason = "checked in vain" if undecided else f"{UNDELIVERABLE} shop.orders: too large"
    half = HalfPosition(offset % 4, offset)
    row = ParkedMessage(f"px-{offset}", "orders", "shop.orders", half, reason, b"k", b"value", NOW_MS - 3_600_000)
    return row._replace(**given)


def group(name: str = "orders", **given: Any) -> GroupFacts:
    return GroupFacts(name, **given)
