"""What a gateway's own port answers beside checks: whether it lives, whether it is ready, its metrics."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def inner_routes(registry: CollectorRegistry, ready: Callable[[], bool]) -> list[Route]:
    """``/live``, ``/ready`` and ``/metrics``."""

    async def live(_: Request) -> Response:
        return PlainTextResponse("live\n")

    async def is_ready(_: Request) -> Response:
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("starting or ending\n", status_code=503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/live", live), Route("/ready", is_ready), Route("/metrics", metrics)]
