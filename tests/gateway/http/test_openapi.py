"""The calls, held against their own description."""

import json
import re
from functools import cache
from typing import Any

import pytest
from starlette.routing import Route

from gateway.http import api
from gateway.http.openapi import document
from tests.gateway.http.served import GROUP, MESSAGE, Served, check

POSTED = {"message": {**MESSAGE, "headers": {"a": "b"}}, "check_max": 3}


@cache
def described() -> dict[str, Any]:
    return json.loads(json.dumps(document("1.2.3")))  # type: ignore[no-any-return]  # a document is an object


def conforms(value: Any, reference: str) -> None:
    schemas = pytest.importorskip("openapi_schema_validator")
    found = {"$ref": f"#/components/schemas/{reference}", "components": described()["components"]}
    schemas.OAS31Validator(found).validate(value)


def test_the_description_is_openapi_3_1() -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(described())


async def test_the_description_is_served_to_anybody(served: Served) -> None:
    answer = await served.client.get("/openapi.json", headers={"origin": "https://elsewhere"})
    assert answer.status_code == 200
    assert answer.json()["openapi"] == "3.1.0"
    assert answer.json()["paths"] == described()["paths"]


async def test_the_description_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, plain = list[str](), document

    def counted(version: str) -> Any:
        made.append(version)
        return plain(version)

    monkeypatch.setattr(api, "document", counted)
    served = Served()
    for _ in range(3):
        assert (await served.client.get("/openapi.json")).status_code == 200
    assert len(made) == 1


async def test_every_path_is_described_and_no_other(served: Served) -> None:
    there = {
        route.path.replace(":path}", "}"): {method.lower() for method in route.methods or ()} - {"head"}
        for route in served.app.routes
        if isinstance(route, Route)
    }
    ends = there.pop("/v1/transactions/{ticket}/{state}")
    there |= {f"/v1/transactions/{{ticket}}/{state}": ends for state in ("commit", "rollback", "unknown")}
    assert {path: set(operations) for path, operations in described()["paths"].items()} == there


def test_every_reference_leads_somewhere() -> None:
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(described())):
        found: Any = described()
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


async def test_answers_and_what_was_posted_are_as_they_are_described(served: Served) -> None:
    begun = await served.client.post(f"{GROUP}/transactions", json=POSTED)
    conforms(begun.json(), "Begun")
    sent = await served.client.post(f"{GROUP}/messages", json={"message": MESSAGE})
    conforms(sent.json(), "Sent")
    announced = await served.client.put(f"{GROUP}/endpoints/a", json={"url": "http://shop/"})
    conforms(announced.json(), "Announced")
    refused = await served.client.post(f"{GROUP}/messages", json={})
    conforms(refused.json(), "Problem")
    conforms(POSTED, "TransactionBody")
    conforms({"message": MESSAGE, "deliver_at_ms": 1}, "SendBody")
    conforms({"url": "http://shop/", "topics": ["orders"], "batch": 2}, "EndpointBody")


@pytest.mark.parametrize(
    "more",
    [{}, {"key": None}, {"value": b"\xff", "headers": [("h", b"\xff")]}, {"value": None, "left_out": 70_000}],
)
async def test_checks_are_as_they_are_described(served: Served, more: dict[str, Any]) -> None:
    await served.client.get(f"{GROUP}/checks?wait=0")
    (channel,) = served.asking._channels["shop"]
    channel.hand(check(**more))
    answer = await served.client.get(f"{GROUP}/checks?wait=0")
    assert len(answer.json()["checks"]) == 1
    conforms(answer.json(), "Checks")


@pytest.mark.parametrize(
    ("wrong", "schema"),
    [
        ({"message": {**MESSAGE, "vlaue": ""}}, "TransactionBody"),
        ({"message": {**MESSAGE, "headers": {"a": 1}}}, "TransactionBody"),
        ({"messages": []}, "TransactionBody"),
        ({"url": "http://shop/", "batch": 101}, "EndpointBody"),
    ],
)
def test_the_description_refuses_what_the_calls_refuse(wrong: Any, schema: str) -> None:
    refused = pytest.importorskip("jsonschema").ValidationError
    with pytest.raises(refused):
        conforms(wrong, schema)
