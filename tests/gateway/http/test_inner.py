"""The inner port of a gateway."""

import asyncio

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from gateway.http.inner import inner_routes


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:8083", 200), ("gateway.example", 200), ("elsewhere.example", 421)]
)
def test_metrics_are_shown_to_names_of_this_machine(host: str, status: int) -> None:
    app = Starlette(routes=inner_routes(CollectorRegistry(), lambda: True, ["gateway.example"]))

    async def got(path: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
            return (await client.get(path, headers={"host": host})).status_code

    assert asyncio.run(got("/metrics")) == status
    assert asyncio.run(got("/ready")) == 200, "for whoever watches over it"
