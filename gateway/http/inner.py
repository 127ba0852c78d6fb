"""What a gateway says of itself: whether it lives, whether it is ready; at its inner port also its metrics."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def standing_routes(ready: Callable[[], bool]) -> list[Route]:
    """``/live`` and ``/ready``."""

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def is_ready(_: Request) -> Response:
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("starting or ending\n", status_code=503)

    return [Route("/live", live), Route("/ready", is_ready)]


def inner_routes(registry: CollectorRegistry, ready: Callable[[], bool]) -> list[Route]:
    """These, and ``/metrics``."""

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [*standing_routes(ready), Route("/metrics", metrics)]
