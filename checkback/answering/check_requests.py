"""A request of the check service over HTTP: read, believed, answered. Who knows the answer is asked for it."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from anyio import CapacityLimiter, fail_after, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from checkback.exceptions import ProtocolError
from checkback.wire.checks import MAX_BATCH, CheckRequest
from checkback.wire.json_reading import read_json, values_in
from checkback.wire.limits import FairShares
from checkback.wire.protocol import VERSION
from checkback.wire.signature import (
    SIGNATURE_HEADER,
    WINDOW_MS,
    NotTrustedError,
    answer_signature,
    fitting_key,
    shown_signature,
)

MAX_BODY_BYTES = 8 * 1024 * 1024
_MAX_HEADERS = 64
OF_BROWSERS = frozenset({"origin", "sec-fetch-site"})
"""Headers."""
_MAX_VALUES = 500_000
_BODY_SECONDS = 30.0
_PROMPT_BYTES = 16 * 1024
_CONVERTING: RunVar[CapacityLimiter] = RunVar("bodies of checks")


def wall_clock_ms() -> int:
    """The machine's clock, ms since 1970."""
    return time.time_ns() // 1_000_000


class Trust(NamedTuple):
    """Which requests are taken."""

    window_ms: int = WINDOW_MS
    """How far the clock of who signed one may be from ``clock_ms``."""
    max_body_bytes: int = MAX_BODY_BYTES
    clock_ms: Callable[[], int] = wall_clock_ms


class _CheckRefusedError(ProtocolError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


IN_FLIGHT = FairShares(96 << 20, partial(_CheckRefusedError, "Too many bytes of checks: ask again later.", 503))
"""Bodies that this process reads or answers."""


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
        _refuse_browsers(request)
        if secrets:
            shown_signature(request.headers)
        with IN_FLIGHT.of(request.client.host if request.client else "") as take:
            body = await _body(request, trust.max_body_bytes, take)
            read = partial(_read, body, request.headers, group, secrets, trust)
            one = limiter_of(_CONVERTING, 1)
            key, checks, several = read() if len(body) <= _PROMPT_BYTES else await to_thread.run_sync(read, limiter=one)
            answers = await find(checks, several=several)
    except ClientDisconnect:
        return Response(status_code=400)  # its client is gone
    except NotTrustedError as refused:
        return JSONResponse({"error": str(refused)}, status_code=401)
    except NobodyThereError as absent:
        return JSONResponse({"error": str(absent)}, status_code=503)
    except _CheckRefusedError as refused:
        later = {"retry-after": "1"} if refused.status == 503 else None
        return JSONResponse({"error": str(refused)}, status_code=refused.status, headers=later)
    answered = JSONResponse({"answers": answers} if several else answers[0])
    if key is not None:
        signed = answer_signature(key, request.headers[SIGNATURE_HEADER], bytes(answered.body))
        answered.headers[SIGNATURE_HEADER] = signed
    return answered


def _refuse_browsers(request: Request) -> None:
    """No page of a browser asks: it could get here without a key, through a browser on this network."""
    if not OF_BROWSERS.isdisjoint(request.headers):
        raise _CheckRefusedError("A page in a browser asks.", 403)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _CheckRefusedError("A check has content-type: application/json.", 415)


async def _body(request: Request, limit: int, take: Callable[[int], None]) -> bytes:
    """The body, of which no more than ``limit`` bytes are kept."""
    if len(request.headers.raw) > _MAX_HEADERS:
        raise _CheckRefusedError(f"There are more than {_MAX_HEADERS} headers.", 431)
    body = bytearray()
    try:
        with fail_after(_BODY_SECONDS):
            async for part in request.stream():
                take(len(part))
                body += part
                if len(body) > limit:
                    raise _CheckRefusedError(f"The body is longer than {limit} bytes.", 413)
    except TimeoutError:
        raise _CheckRefusedError(f"The body did not end within {_BODY_SECONDS:g} s.", 408) from None
    return bytes(body)


def limiter_of(place: RunVar[CapacityLimiter], threads: int) -> CapacityLimiter:
    """Of the loop that runs."""
    try:
        return place.get()
    except LookupError:
        place.set(limiter := CapacityLimiter(threads))
        return limiter


def _read(
    body: bytes, headers: Mapping[str, str], group: str, secrets: Sequence[bytes], trust: Trust
) -> tuple[bytes | None, list[CheckRequest], bool]:
    """The key that it is signed with, and what it says. Of 8 MiB that takes a second."""
    key = fitting_key(secrets, headers, body, trust.clock_ms(), trust.window_ms) if secrets else None
    return (key, *_checks(body, group))


def _checks(body: bytes, group: str) -> tuple[list[CheckRequest], bool]:
    """The checks in a body, all of this group, and whether it is a body for several."""
    if values_in(body, _MAX_VALUES) > _MAX_VALUES:
        raise _CheckRefusedError(f"The body has more than {_MAX_VALUES:,} texts and other values.", 400)
    try:
        parsed = read_json(body)
        several = isinstance(parsed, dict) and "checks" in parsed
        checks = _several(parsed) if several else [CheckRequest.from_json(parsed)]
    except (ProtocolError, ValueError, RecursionError) as error:
        raise _CheckRefusedError(str(error), 400) from error
    if any(check.group != group for check in checks):
        raise _CheckRefusedError(f"This endpoint answers for group {group}.", 404)
    return checks, several


def _several(parsed: dict[str, Any]) -> list[CheckRequest]:
    try:
        if parsed.get("version", VERSION) > VERSION:
            raise ProtocolError(f"This check request is of version {parsed['version']}, we speak {VERSION}.")
        if not 1 <= len(parsed["checks"]) <= MAX_BATCH:
            raise ProtocolError(f"{len(parsed['checks'])} checks in one request; 1 to {MAX_BATCH} are valid.")
        return [CheckRequest.from_json(check) for check in parsed["checks"]]
    except (TypeError, KeyError) as error:
        raise ProtocolError(f"Not a request of several checks: {error!r}.") from error
