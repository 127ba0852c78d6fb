"""A listener for checks, and a request as the check service makes it."""

import asyncio
import json
from typing import Any

import httpx

from checkback import (
    CheckRequest,
    HalfPosition,
    LocalTransactionState,
)

REQUEST = CheckRequest("tx", "orders", "paid", b"k", b"v", [("a", b"\x00")], HalfPosition(1, 2), 1, 15, 1_000)


class Answerer:
    """A listener that answers with whatever it is given, and raises an exception it is given."""

    def __init__(self, answer: Any = LocalTransactionState.COMMIT) -> None:
        self.asked: list[CheckRequest] = []
        self._answer = answer

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[no-any-return]  # some tests give what is not a state


def request(
    app: Any, body: Any, method: str = "POST", path: str = "/", headers: dict[str, str] | None = None
) -> httpx.Response:
    """Send a body, as JSON unless it is bytes, to an application without a network."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def sent() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            sent = {"content-type": "application/json", **(headers or {})}
            return await client.request(method, path, content=content, headers=sent)

    return asyncio.run(sent())


KEY = "the group's secret"
