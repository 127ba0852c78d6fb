"""The check endpoint's answers over HTTP, as an ASGI application."""

import logging
from collections.abc import Callable, Sequence

from anyio import CapacityLimiter, create_task_group, move_on_after, to_thread
from anyio.lowlevel import RunVar
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from checkback.answering.check_requests import MAX_BODY_BYTES, Trust, check_response, limiter_of, wall_clock_ms
from checkback.exceptions import ConfigurationError
from checkback.listener import LocalTransactionState, TransactionChecker
from checkback.own_lanes import owner_of
from checkback.wire.checks import REMARK_CHARACTERS, CheckRequest
from checkback.wire.lanes import ANSWER_FIELD, LaneFact
from checkback.wire.signature import WINDOW_MS

_LOGGER = logging.getLogger(__name__)
_THREADS = 16
_BATCH_MS = 2_000  # shorter than the check service's patience, checks.ask_timeout


Keys = str | Sequence[str] | None
"""A group's secret, or several, of which a request is signed with one; None: nobody signs."""


def keys_of(given: Keys) -> list[bytes]:
    """The secrets as bytes; none, where nobody signs.

    Raises:
        ConfigurationError: one is empty, so that anybody could sign, or there is none in the list.
    """
    if given is None:
        return []
    keys = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(key, str) for key in keys):
        raise ConfigurationError("key must be a text, or a list of texts.")
    if not keys or not all(key.strip() for key in keys):
        raise ConfigurationError(
            "key is empty: give the group's secret, as checks.keys has it, or None for no signature."
        )
    return [key.encode() for key in keys]


def check_app(  # noqa: PLR0913  (keyword options, most of them left at their defaults)
    listener: TransactionChecker,
    group: str,
    *,
    key: Keys = None,
    window_ms: int = WINDOW_MS,
    max_body_bytes: int = MAX_BODY_BYTES,
    batch_ms: int = _BATCH_MS,
    threads: int = _THREADS,
    clock_ms: Callable[[], int] = wall_clock_ms,
) -> Starlette:
    """An ASGI application that answers checks of one producer group with POST on its root.

    Mount it in your own: ``app.mount("/checkback", check_app(listener, "orders"))``. The listener is called from
    at most ``threads`` threads at once, which are not those of your application's own requests; what it raises is
    answered as *unknown*, with the exception in the remark. Of several checks in one
    request those are answered that are done within ``batch_ms`` ms; the others are then left out, which means
    *unknown*.

    With ``key`` only requests are answered (else: status 401) that are signed with it, or with one of several, by a
    clock that is at most ``window_ms`` ms away from ``clock_ms``, ms since 1970; the answer is signed with the same.
    Bodies longer than ``max_body_bytes`` bytes are refused with 413, more than 64 headers with 431.

    Raises:
        ConfigurationError: the key is empty, so that anybody could sign.
    """
    secrets, trust = keys_of(key), Trust(window_ms, max_body_bytes, clock_ms)
    limiters: RunVar[CapacityLimiter] = RunVar("checks")  # of each loop that serves this application

    async def found(checks: list[CheckRequest], *, several: bool) -> list[dict[str, str]]:
        limiter = limiter_of(limiters, threads)
        if several:
            return await _answers(listener, checks, batch_ms / 1000, limiter)
        return [await to_thread.run_sync(_checked, listener, checks[0], limiter=limiter)]

    async def answer(request: Request) -> Response:
        return await check_response(request, group, secrets, found, trust)

    return Starlette(routes=[Route("/", answer, methods=["POST"])])


async def _answers(
    listener: TransactionChecker, checks: list[CheckRequest], seconds: float, limiter: CapacityLimiter
) -> list[dict[str, str]]:
    """The answers that were there in time. Threads cannot be ended: the listener's late calls end by themselves."""
    answered: list[dict[str, str]] = []

    async def one(check: CheckRequest) -> None:
        answer = await to_thread.run_sync(_checked, listener, check, abandon_on_cancel=True, limiter=limiter)
        remark = answer["remark"][:REMARK_CHARACTERS]
        answered.append({"id": check.transaction_id, **answer, "remark": remark})

    with move_on_after(seconds):
        async with create_task_group() as asking:
            for check in checks:
                asking.start_soon(one, check)
    return answered


def _checked(listener: TransactionChecker, check: CheckRequest) -> dict[str, str]:
    """The answer. Of a lane of this process it has the fact, so that nobody fences the lane to find it out."""
    owner = owner_of(check.lane)
    known = owner.known(check) if owner else None
    if known is not None:
        fact = {ANSWER_FIELD: known.fact.value} if known.fact else {}
        return {"state": known.action.value, "remark": "its producer says so", **fact}
    state, remark = _asked(listener, check)
    if owner is None or state is LocalTransactionState.UNKNOWN:
        return {"state": state.value, "remark": remark}
    if owner.leaves(check):
        return {"state": state.value, "remark": remark, ANSWER_FIELD: LaneFact.SETTLED.value}
    return {"state": LocalTransactionState.UNKNOWN.value, "remark": "its producer is about to deliver it"}


def _asked(listener: TransactionChecker, check: CheckRequest) -> tuple[LocalTransactionState, str]:
    try:
        return LocalTransactionState(listener.check_local_transaction(check)), ""
    except Exception as error:  # whatever the application raises: the job will ask again
        _LOGGER.exception("The check of %s raised", check.transaction_id)
        return LocalTransactionState.UNKNOWN, f"check_local_transaction raised {error!r}"
