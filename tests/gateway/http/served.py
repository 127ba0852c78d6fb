"""The calls of a gateway over HTTP on a Kafka that is a list."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from checkback.kafka.transport import Appended, OutgoingRecord
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, Topics
from checkback.wire.signed_records import SigningKey
from conf.settings import AccessSettings
from gateway.accounts import Accounts
from gateway.asking import Asking
from gateway.http.api import HttpApi
from gateway.http.polls import Polls
from gateway.kafka.announcing import ProducersTopic
from gateway.process import _signed
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import TicketSeal
from gateway.transactions import GatewayTransactions

TOPICS = Topics()
NOW_MS = 1_764_000_000_000
SECRET = "s" * 32
TOKEN = SigningKey("shop-1", SECRET).bearer_token
STRANGER = SigningKey("other-1", SECRET).bearer_token
POLICY = """
[accounts.shop]
groups = ["shop", "shop/*"]
topics = ["orders"]
keys = ["shop-1"]

[accounts.other]
groups = ["other"]
topics = ["orders"]
keys = ["other-1"]

[accounts.job]
keys = ["job-1"]
roles = ["job"]
"""
MESSAGE = {"topic": "orders", "key": "17", "value": "a book"}
GROUP = "/v1/groups/shop"


class OneTopic:
    """Of topics there is ``orders`` only; the half topic has four partitions."""

    async def half_partitions(self) -> int:
        return 4

    async def look(self, topic: str) -> None:
        if topic != "orders":
            raise GatewayError(RefusalReason.NO_TOPIC, f"Kafka has no topic {topic}.")


def access_in(folder: Path) -> AccessSettings:
    """Two accounts, ``shop`` and ``other``."""
    (folder / "access.toml").write_text(POLICY, encoding="utf-8")
    secrets = folder / "secrets.toml"
    secrets.write_text("".join(f'"{name}" = "{SECRET}"\n' for name in ("shop-1", "other-1", "job-1")), encoding="utf-8")
    secrets.chmod(0o600)
    return AccessSettings(policy=str(folder / "access.toml"), secrets=str(secrets))


@dataclass
class Served:
    """Its parts, put together as a process has them."""

    access: AccessSettings = field(default_factory=AccessSettings)
    written: list[OutgoingRecord] = field(default_factory=list)
    called: list[tuple[str, str, int]] = field(default_factory=list)
    refusal: Exception | None = None
    """What Kafka says instead of taking a record."""
    slow: asyncio.Event | None = None
    """Set when Kafka acknowledges; None: at once."""
    seconds: float = 0.0
    """The clock of polls."""
    most_bytes: int = 1_000
    ready: bool = True

    def __post_init__(self) -> None:
        self.asking = Asking(patience_seconds=60)
        self.seal = TicketSeal([SECRET])
        self.accounts = accounts = Accounts(self.access, TOPICS, lambda: NOW_MS)
        self.polls = Polls(self.asking, accounts.may_act, lambda: self.seconds)
        producers = ProducersTopic(TOPICS.producers, self._write, lambda group, one: _signed(accounts, group, one))
        self.transactions = GatewayTransactions(TOPICS, self._write, OneTopic(), accounts, self.asking, self.seal)
        api = HttpApi(
            self.transactions,
            accounts,
            self.ticket,
            self.most_bytes,
            self.polls,
            producers,
            30,
            lambda: self.ready,
            lambda protocol, call, status, _: self.called.append((protocol, call, status)),
        )
        self.app = api.app()
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False), base_url="http://127.0.0.1:8082"
        )

    def ticket(self, check: CheckRequest) -> str:
        return self.seal.of_check(check)

    async def _write(self, record: OutgoingRecord) -> Appended:
        if self.slow is not None:
            await self.slow.wait()
        if self.refusal is not None:
            raise self.refusal
        self.written.append(record)
        return Appended(len(self.written) - 1, NOW_MS)


def requested(method: str, path: str, access: AccessSettings | None = None, **more: Any) -> httpx.Response:
    """One request to a fresh gateway."""
    return asyncio.run(Served(access or AccessSettings()).client.request(method, path, **more))


def check(number: int = 0, group: str = "shop", **more: Any) -> CheckRequest:
    """A question about a transaction of an order."""
    said: dict[str, Any] = {"key": b"17", "value": b"a book", "headers": [("trace", b"x")], **more}
    half = HalfPosition(1, number)
    return CheckRequest(f"tx-{number}", group, "orders", half=half, attempt=1, check_max=15, ingested_ms=NOW_MS, **said)


def header(record: OutgoingRecord, name: str) -> bytes | None:
    """The first header of this name."""
    return dict(reversed(list(record.headers))).get(name)
