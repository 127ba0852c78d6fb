"""What a gateway says of itself, and its inner port: metrics, and checks, for which the job's machine reaches it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from checkback.answering.check_requests import NobodyThereError, Trust, check_response
from checkback.answering.listening import OwnNames
from checkback.wire.checks import REMARK_CHARACTERS, CheckRequest
from gateway.asking import ClientAnswer

PATH = "/checks/"
Answer = Callable[[CheckRequest], Awaitable[ClientAnswer | None]]
"""What became of a transaction; None: nobody can say so now."""


def standing_routes(ready: Callable[[], bool]) -> list[Route]:
    """``/live`` and ``/ready``."""

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def is_ready(_: Request) -> Response:
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("starting or ending\n", status_code=503)

    return [Route("/live", live), Route("/ready", is_ready)]


def inner_routes(registry: CollectorRegistry, ready: Callable[[], bool], names: Iterable[str] = ()) -> list[Route]:
    """These, and ``/metrics``. ``names``: see :class:`~checkback.answering.listening.OwnNames`."""
    own = OwnNames(names)

    async def metrics(request: Request) -> Response:
        return own.refused(request.scope) or Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [*standing_routes(ready), Route("/metrics", metrics)]


def checks_app(answer_of: Answer, secrets: Callable[[str], Sequence[bytes]]) -> Starlette:
    """Answers ``POST /checks/GROUP``. ``secrets`` of a group: ``checks.keys``."""
    trust = Trust()

    async def one(check: CheckRequest) -> dict[str, str]:
        said = await answer_of(check)
        if said is None:
            raise NobodyThereError(f"No client of group {check.group} listens here, or its message cannot be read.")
        return {"id": check.transaction_id, "state": said.state.value, "remark": said.remark[:REMARK_CHARACTERS]}

    async def find(checks: list[CheckRequest], *, several: bool) -> list[dict[str, str]]:
        found = await asyncio.gather(*map(one, checks), return_exceptions=True)
        answers = [answer for answer in found if isinstance(answer, dict)]
        wrong = next((error for error in found if isinstance(error, BaseException)), None)
        if wrong is not None and not (answers and several and isinstance(wrong, NobodyThereError)):
            raise wrong
        return answers

    async def answer(request: Request) -> Response:
        group = request.path_params["group"]
        return await check_response(request, group, secrets(group), find, trust)

    return Starlette(routes=[Route(f"{PATH}{{group:path}}", answer, methods=["POST"])])
