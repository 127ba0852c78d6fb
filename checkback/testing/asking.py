"""Asks an application what became of a transaction, as the check service would."""

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio

from checkback.answering.app import check_app
from checkback.exceptions import CheckbackError
from checkback.listener import LocalTransactionState, TransactionChecker
from checkback.testing.recording import RecordedTransaction
from checkback.wire.checks import CheckRequest
from checkback.wire.signature import SIGNATURE_HEADER, answer_fits, signed_headers

_OK = 200


def check_request(transaction: RecordedTransaction, *, attempt: int = 1, check_max: int = 15) -> CheckRequest:
    """The question that a check endpoint gets about this transaction."""
    first = transaction.messages[0]
    alone = not transaction.several
    return CheckRequest(
        transaction_id=transaction.transaction_id,
        group=transaction.group,
        topic=first.topic,
        key=first.key if alone else None,
        value=first.value if alone else None,
        headers=list(first.headers) if alone else [],
        half=transaction.half,
        attempt=attempt,
        check_max=check_max,
        ingested_ms=time.time_ns() // 1_000_000,
        messages=() if alone else transaction.messages,
    )


def ask(
    answering: TransactionChecker | Any, transaction: RecordedTransaction, *, path: str = "/", key: str | None = None
) -> LocalTransactionState:
    """What the application says of a transaction.

    Args:
        answering: a listener, or an ASGI application in which ``check_app`` is mounted.
        transaction: as :class:`~checkback.testing.RecordingTransport` has it.
        path: where in the application.
        key: the group's secret, if the endpoint wants requests signed.

    Raises:
        CheckbackError: the answer is not one: no endpoint at that path, another group, a wrong signature of the request
            or the answer.
    """
    if hasattr(answering, "check_local_transaction"):
        answering = check_app(answering, transaction.group, key=key)
    body = json.dumps(check_request(transaction).to_json()).encode()
    headers = signed_headers(key.encode(), time.time_ns() // 1_000_000, body) if key is not None else {}
    with ThreadPoolExecutor(1) as apart:  # the test may have a loop of its own
        status, signed, answered = apart.submit(anyio.run, _posted, answering, path, headers, body).result()
    if status != _OK:
        raise CheckbackError(f"The application answered {status}: {answered.decode(errors='replace'):.500}")
    if key is not None and not answer_fits(key.encode(), headers[SIGNATURE_HEADER], answered, signed):
        raise CheckbackError("The answer is not signed with the group's key: the check service takes no such one.")
    return LocalTransactionState(json.loads(answered)["state"])


async def _posted(app: Any, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
    """POST to an ASGI application: status, signature and body of what it answers."""
    sent = {"host": "check", "content-type": "application/json", "content-length": str(len(body)), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("check", 80),
    }
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    answered: list[dict[str, Any]] = []
    done = anyio.Event()

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await done.wait()  # as long as nobody hangs up: Django gives up a request then
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        answered.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            done.set()

    await app(scope, receive, send)
    start = next(one for one in answered if one["type"] == "http.response.start")
    signed = {name.lower(): value for name, value in start["headers"]}.get(SIGNATURE_HEADER.encode(), b"")
    return (
        int(start["status"]),
        signed.decode("latin-1"),
        b"".join(one.get("body", b"") for one in answered if one["type"] == "http.response.body"),
    )
