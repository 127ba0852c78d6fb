"""A request of the check service over HTTP: read, believed, answered. Who knows the answer is asked for it."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from checkback.exceptions import ProtocolError
from checkback.wire.checks import MAX_BATCH, CheckRequest
from checkback.wire.protocol import VERSION
from checkback.wire.signature import SIGNATURE_HEADER, WINDOW_MS, NotTrustedError, answer_signature, fitting_key

MAX_BODY_BYTES = 8 * 1024 * 1024
_MAX_HEADERS = 64


def wall_clock_ms() -> int:
    """The machine's clock, ms since 1970."""
    return time.time_ns() // 1_000_000


class Trust(NamedTuple):
    """Which requests are taken."""

    window_ms: int = WINDOW_MS
    """How far the clock of who signed one may be from ``clock_ms``."""
    max_body_bytes: int = MAX_BODY_BYTES
    clock_ms: Callable[[], int] = wall_clock_ms


class FindAnswers(Protocol):
    """Finds out what became of transactions."""

    async def __call__(self, checks: list[CheckRequest], *, several: bool) -> list[dict[str, str]]:
        """Answers to checks of one group: of ``several`` each with its ``id``, and some may be missing.

        Raises:
            NobodyThereError: there is nobody who could know.
        """


class NobodyThereError(ProtocolError):
    """Nobody is there who could answer: the check counts as not asked."""


async def check_response(
    request: Request, group: str, secrets: Sequence[bytes], find: FindAnswers, trust: Trust
) -> Response:
    """The response to a request about transactions of a group; with ``secrets`` it is to be signed with one of them."""
    try:
        body = await _body(request, trust.max_body_bytes)
        key = fitting_key(secrets, request.headers, body, trust.clock_ms(), trust.window_ms) if secrets else None
        checks, several = _checks(body, group)
        answers = await find(checks, several=several)
    except NotTrustedError as refused:
        return JSONResponse({"error": str(refused)}, status_code=401)
    except NobodyThereError as nobody:
        return JSONResponse({"error": str(nobody)}, status_code=503)
    except _CheckRefusedError as refused:
        return JSONResponse({"error": str(refused)}, status_code=refused.status)
    answered = JSONResponse({"answers": answers} if several else answers[0])
    if key is not None:
        signed = answer_signature(key, request.headers[SIGNATURE_HEADER], bytes(answered.body))
        answered.headers[SIGNATURE_HEADER] = signed
    return answered


class _CheckRefusedError(ProtocolError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


async def _body(request: Request, limit: int) -> bytes:
    """The body, of which no more than ``limit`` bytes are kept."""
    if len(request.headers.raw) > _MAX_HEADERS:
        raise _CheckRefusedError(f"There are more than {_MAX_HEADERS} headers.", 431)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise _CheckRefusedError(f"The body is longer than {limit} bytes.", 413)
    return bytes(body)


def _checks(body: bytes, group: str) -> tuple[list[CheckRequest], bool]:
    """The checks in a body, all of this group, and whether it is a body for several."""
    try:
        said = json.loads(body)
        several = isinstance(said, dict) and "checks" in said
        checks = _several(said) if several else [CheckRequest.from_json(said)]
    except (ProtocolError, ValueError, RecursionError) as error:
        raise _CheckRefusedError(str(error), 400) from error
    if any(check.group != group for check in checks):
        raise _CheckRefusedError(f"This endpoint answers for group {group}.", 404)
    return checks, several


def _several(said: dict[str, Any]) -> list[CheckRequest]:
    try:
        if said.get("version", VERSION) > VERSION:
            raise ProtocolError(f"This check request is of version {said['version']}, we speak {VERSION}.")
        if not 1 <= len(said["checks"]) <= MAX_BATCH:
            raise ProtocolError(f"{len(said['checks'])} checks in one request; 1 to {MAX_BATCH} are valid.")
        return [CheckRequest.from_json(check) for check in said["checks"]]
    except (TypeError, KeyError) as error:
        raise ProtocolError(f"Not a request of several checks: {error!r}.") from error
