"""A gateway without Kafka: what it writes is kept, and acknowledged at once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from access.credentials import Caller
from checkback.kafka.transport import Appended, OutgoingRecord
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, Topics
from conf.settings import AccessSettings
from gateway.accounts import Accounts
from gateway.asking import Asking
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import TicketSeal
from gateway.transactions import GatewayTransactions

SECRET = "s" * 32
NOW_MS = 1_700_000_000_000
ANYBODY = Caller("", "")
POLICY = """
[accounts.shop]
groups = ["orders"]
topics = ["orders"]
keys = ["shop-1"]

[accounts.other]
groups = ["invoices"]
topics = ["*"]
keys = ["other-1"]
"""
KEYS = {"shop-1": "a" * 40, "other-1": "b" * 40}


class Log:
    """Stands for Kafka: each record gets the next offset of its partition."""

    def __init__(self, missing: frozenset[str] = frozenset()) -> None:
        self.records: list[OutgoingRecord] = []
        self.refusing: GatewayError | None = None
        self.missing = missing
        self.slow: asyncio.Event | None = None

    async def write(self, record: OutgoingRecord) -> Appended:
        if self.slow is not None:
            await self.slow.wait()
        if self.refusing is not None:
            raise self.refusing
        self.records.append(record)
        return Appended(sum(one.partition == record.partition for one in self.records) - 1, NOW_MS)

    async def half_partitions(self) -> int:
        return 3

    async def look(self, topic: str) -> None:
        if topic in self.missing:
            raise GatewayError(RefusalReason.NO_TOPIC, f"Kafka has no topic {topic}.")

    def headers(self, number: int) -> dict[str, bytes]:
        return dict(self.records[number].headers)


class Scene:
    """Its parts, put together as a process has them."""

    def __init__(self, *, policy: str = "", keys: Mapping[str, str] | None = None, folder: Path = Path()) -> None:
        self.log = Log()
        self.own = Topics()
        access = AccessSettings()
        if policy:
            policy_file, secrets = folder / "access.toml", folder / "secrets.toml"
            policy_file.write_text(policy, encoding="utf-8")
            secrets.write_text("".join(f'{name} = "{secret}"\n' for name, secret in (keys or {}).items()))
            secrets.chmod(0o600)
            access = AccessSettings(policy=str(policy_file), secrets=str(secrets))
        self.accounts = Accounts(access, self.own, lambda: NOW_MS)
        self.asking = Asking(60)
        self.seal = TicketSeal([SECRET])
        self.transactions = GatewayTransactions(
            self.own, self.log.write, self.log, self.accounts, self.asking, self.seal
        )


_FIRST = HalfPosition(0, 0)


def check_of(
    half: HalfPosition = _FIRST,
    group: str = "orders",
    headers: list[tuple[str, bytes]] | None = None,
    attempt: int = 1,
) -> CheckRequest:
    return CheckRequest("id-1", group, "orders", None, b"body", headers or [], half, attempt, 15, NOW_MS)
