"""Asks an endpoint as the check service does."""

import asyncio
from collections.abc import Sequence
from typing import Any

from checkback import CheckRequest, HalfPosition, LocalTransactionState
from checkers.ask import Asker, EndpointAnswer, EndpointVerdict
from checkers.directory import Endpoint
from checkers.http.admission import AllowList
from checkers.http.session import open_session, tls_context
from checkers.settling import Then
from conf.settings import CheckSettings

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
    ingested_ms=1_767_225_600_000,
)


def at_once(_: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
    """Settles for those who have no lanes."""
    then(verdict)


def ask_about(
    url: str, requests: Sequence[CheckRequest], keys: dict[str, bytes] | None = None, **settings: Any
) -> EndpointAnswer:
    """Ask as the service does, over the network."""
    checks = CheckSettings.model_validate({"ask_timeout": "60s", **settings})

    async def asked() -> EndpointAnswer:
        allowed = AllowList(checks.allowed_hosts)
        async with open_session(checks, allowed, tls_context(checks)) as session:
            return await Asker(session, allowed, keys, lambda: 1_000).ask(Endpoint(url, 100), requests)

    return asyncio.run(asked())


def never(_: Any, __: Any = None) -> LocalTransactionState:
    raise AssertionError("nobody may call this")
