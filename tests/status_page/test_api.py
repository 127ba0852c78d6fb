"""The API, held against its own description."""

import json
import re
import sqlite3
from functools import cache
from typing import Any

import httpx
import pytest

from checkback.exceptions import OperatorError
from checkback.operations.lanes import NO_LEDGER, LaneFinding
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import HalfPosition
from status_page.api import routes
from status_page.api.openapi import document
from status_page.pages.forms import MOST_BYTES
from status_page.transactions.index import Index, RowFilter
from tests.status_page.browser import NOW_MS, TOKEN, Browser, Place, doubtful
from tests.status_page.pages.test_pages import busy

BEARER = {"authorization": f"Bearer {TOKEN}"}
DECISION = {
    "action": "commit",
    "transactions": [{"half": "0:0", "transaction_id": "tx-0"}],
    "who": "Ada",
    "why": "she looked",
}


@pytest.fixture
def place() -> Place:
    return busy()


@pytest.fixture
def api(place: Place) -> Browser:
    return place.browser()


@cache
def described() -> dict[str, Any]:
    return json.loads(json.dumps(document("1.2.3")))  # type: ignore[no-any-return]  # a document is an object


def fits(answer: httpx.Response, operation: str) -> Any:
    """The answer's JSON, which must be as the description says of this operation and status."""
    (found,) = (
        one for path in described()["paths"].values() for one in path.values() if one["operationId"] == operation
    )
    content = found["responses"][str(answer.status_code)]["content"]["application/json"]
    assert answer.headers["content-type"] == "application/json"
    said = answer.json()
    conforms(said, content.get("schema", {}), operation)
    return said


def conforms(value: Any, schema: dict[str, Any], where: str) -> None:
    """As much of JSON Schema as the description uses; a key that is not described is an error, too."""
    if "$ref" in schema:
        conforms(value, described()["components"]["schemas"][schema["$ref"].rpartition("/")[2]], where)
        return
    if "anyOf" in schema:
        errors = [wrong for one in schema["anyOf"] if (wrong := mistake(value, one, where))]
        assert len(errors) < len(schema["anyOf"]), errors
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or any(isinstance(value, KINDS[kind]) for kind in kinds), (where, value, kinds)
    assert value in schema.get("enum", [value]), where
    if isinstance(value, str) and "pattern" in schema:
        assert re.search(schema["pattern"], value), where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", ())) <= set(value) <= set(schema["properties"]), where
        for name, one in value.items():
            conforms(one, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        for one in value:
            conforms(one, schema.get("items", {}), f"{where}[]")


KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def mistake(value: Any, schema: dict[str, Any], where: str) -> str:
    try:
        conforms(value, schema, where)
    except AssertionError as error:
        return str(error)
    return ""


def test_the_description_is_openapi_3_1() -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(described())


def test_the_description_is_served_and_leads_somewhere(api: Browser) -> None:
    said = api.get("/api/v1/openapi.json").json()
    assert said == described()
    assert said["openapi"] == "3.1.0"
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(said)):
        found: Any = said
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    for path, operations in said["paths"].items():
        for method in operations:
            answer = api.request(method, path.replace("{half}", "0:0").replace("{receipt}", "x"))
            assert answer.status_code not in {405, 500}, path


def test_status_has_the_jobs_facts(api: Browser) -> None:
    said = fits(api.get("/api/v1/status"), "status")
    assert (said["job"], said["batch"]["number"], said["in_doubt"], said["parked"]) == ("shop", 12, 4, 3)
    assert said["in_doubt_oldest_ms"] == NOW_MS - 60_000
    assert said["lists"] == {"complete": True, "behind": 0, "away_seconds": None, "problem": "", "foreign": 0}
    assert [one["group"] for one in said["groups"]] == ["orders", "quiet"]


def test_a_job_that_has_just_started_has_a_status() -> None:
    said = fits(Place().browser().get("/api/v1/status"), "status")
    assert (said["batch"], said["in_doubt_oldest_ms"]) == (None, None)


def test_lists_have_the_same_filters_and_pages_as_the_page(api: Browser) -> None:
    said = fits(api.get("/api/v1/transactions?limit=2&group=orders"), "transactions")
    assert [row["transaction_id"] for row in said["rows"]] == ["tx-0", "tx-1"]
    assert (said["total"], said["total_is_exact"], said["before"]) == (3, True, None)
    assert said["rows"][0]["why"] == "Asked 2 times of 15, no verdict; its producers did not know"
    assert said["rows"][0]["actions"] == ["commit", "rollback"]
    more = fits(api.get("/api/v1/transactions", params={"group": "orders", "after": said["after"]}), "transactions")
    assert [row["transaction_id"] for row in more["rows"]] == ["tx-2"]
    assert more["after"] is None
    parked = fits(api.get("/api/v1/parked?id=px-2"), "parked")
    assert [(row["half"], row["actions"], row["value_bytes"]) for row in parked["rows"]] == [("2:2", ["redeliver"], 5)]
    assert fits(api.get("/api/v1/parked?limit=x"), "parked")["error"].startswith("limit must be")


@pytest.mark.parametrize("path", ["/api/v1/transactions?older_than=1s", "/api/v1/parked?group=x"])
def test_a_question_that_takes_too_long_is_given_up(api: Browser, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """It was status 500, as of a failure."""
    plain = Index.total

    def total(self: Index, table: str, *wanted: RowFilter) -> Any:
        if wanted:
            raise sqlite3.OperationalError("interrupted")
        return plain(self, table)

    monkeypatch.setattr(Index, "total", total)
    answer = api.get(path)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    fits(answer, "transactions" if "transactions" in path else "parked")
    assert api.get(path.replace("/api/v1", "")).status_code == 503


def test_one_transaction(api: Browser) -> None:
    said = fits(api.get("/api/v1/transactions/1:1"), "transaction")
    assert (said["in_doubt"]["transaction_id"], [one["transaction_id"] for one in said["parked"]]) == ("tx-1", ["px-1"])
    assert fits(api.get("/api/v1/transactions/3:3"), "transaction")["in_doubt"] is None
    assert api.get("/api/v1/transactions/9:9").status_code == 404
    assert fits(api.get("/api/v1/transactions/tx-1"), "transaction")["error"].startswith("Name the place")


def test_groups(api: Browser) -> None:
    said = fits(api.get("/api/v1/groups"), "groups")
    assert [(one["group"], one["in_doubt"]) for one in said["groups"]] == [("orders", 3), ("quiet", 0), ("mail", 1)]
    assert said["groups"][0]["endpoints"][0]["reason"] == "connection refused"
    assert said["in_doubt"] == [
        {"group": "orders", "topic": "shop.orders", "number": 3, "unasked": ""},
        {"group": "mail", "topic": "shop.mail", "number": 1, "unasked": ""},
    ]


def test_no_more_groups_than_documented(api: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_GROUPS", 2)
    assert [row["group"] for row in fits(api.get("/api/v1/groups"), "groups")["groups"]] == ["orders", "quiet"]


def test_the_facts_are_asked_for_once_however_many_rows(place: Place, api: Browser) -> None:
    place.doubt(*map(doubtful, range(10, 200)))
    before = place.view.asked
    api.get("/api/v1/transactions?limit=200")
    assert place.view.asked - before == 1


def test_a_decision_is_written_for_who_shows_the_token(place: Place, api: Browser) -> None:
    answer = api.post("/api/v1/decisions", json=DECISION, headers=BEARER)
    assert answer.status_code == 202
    said = fits(answer, "decide")
    judged = {"waiting": True, "by_lane": False, "rejected": ""}
    assert said["transactions"] == [
        {"half": "0:0", "transaction_id": "tx-0", "group": "orders", "topic": "shop.orders", **judged}
    ]
    assert [(row[0], action) for row, action, _ in place.ops.written] == [("tx-0", "commit")]
    again = fits(api.get(f"/api/v1/decisions/{said['receipt']}"), "decided")
    assert again == said
    assert fits(api.get("/api/v1/decisions/nothing"), "decided") == {
        "error": "There is no such decision. 'checkback audit' lists all."
    }


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": ""}]
)
def test_nothing_is_written_without_the_token(headers: dict[str, str], place: Place, api: Browser) -> None:
    api.sign_in()
    answer = api.post("/api/v1/decisions", json=DECISION, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    fits(answer, "decide")
    assert place.ops.written == []


def test_guessing_is_slowed_down(api: Browser) -> None:
    for _ in range(5):
        api.post("/api/v1/decisions", json=DECISION, headers={"authorization": "Bearer wrong"})
    answer = api.post("/api/v1/decisions", json=DECISION, headers=BEARER)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    fits(answer, "decide")


def test_without_a_token_in_the_settings_nobody_decides() -> None:
    answer = Place(token="").browser().post("/api/v1/decisions", json=DECISION, headers={"authorization": "Bearer "})
    assert answer.status_code == 403
    fits(answer, "decide")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"action": "unknown"}, 422),
        ({"action": "resume"}, 422),
        ({"action": None}, 422),
        ({"who": ""}, 422),
        ({"why": "x" * 501}, 422),
        ({"who": 5}, 422),
        ({"seen": 5}, 422),
        ({"seen": "perhaps"}, 422),
        ({"action": "rollback", "seen": "delivered"}, 422),
        ({"transactions": []}, 422),
        ({"transactions": [{"half": "0:0"}]}, 422),
        ({"transactions": [{"half": 0, "transaction_id": "tx-0"}]}, 422),
        ({"transactions": ["0:0 tx-0"]}, 422),
        ({"transactions": [{"half": "0:0", "transaction_id": "tx-0"}] * 501}, 422),
        ({"transactions": {"half": "0:0"}}, 422),
        ({"transactions": [{"half": "0:0", "transaction_id": "tx-0"}, {"half": "9:9", "transaction_id": "x"}]}, 409),
        ({"transactions": [{"half": "0:0", "transaction_id": "another"}]}, 409),
    ],
)
def test_a_wrong_decision_is_not_written(change: dict[str, Any], status: int, place: Place, api: Browser) -> None:
    body = json.dumps({**DECISION, **change}).encode()
    headers = {**BEARER, "content-type": "application/json; charset=utf-8"}
    answer = api.post("/api/v1/decisions", content=body, headers=headers)
    assert answer.status_code == status
    assert "Nothing was done." in fits(answer, "decide")["error"]
    assert place.ops.written == []


def test_of_what_nobody_can_know_a_program_says_what_it_has_seen(place: Place, api: Browser) -> None:
    place.lanes = {HalfPosition(0, 0): LaneFinding("0" * 32, None, NO_LEDGER)}
    refused = api.post("/api/v1/decisions", json=DECISION, headers=BEARER)
    assert refused.status_code == 409
    assert "Nobody can know whether tx-0 at 0:0 was delivered" in fits(refused, "decide")["error"]
    assert place.ops.written == []
    for seen, fact in (("not delivered", LaneFact.SETTLED), ("delivered", LaneFact.DELIVERED)):
        fits(api.post("/api/v1/decisions", json={**DECISION, "seen": seen}, headers=BEARER), "decide")
        assert place.ops.facts[-1] is fact


def test_what_its_lane_has_delivered_is_said_to_be_committed(place: Place, api: Browser) -> None:
    place.lanes = {HalfPosition(0, 0): LaneFinding("0" * 32, LaneFact.DELIVERED)}
    answer = api.post("/api/v1/decisions", json={**DECISION, "action": "rollback"}, headers=BEARER)
    assert [one["by_lane"] for one in fits(answer, "decide")["transactions"]] == [True]
    assert [(row[0], action) for row, action, _ in place.ops.written] == [("tx-0", "commit")]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[]", "application/json", 422),
        (b"\xff", "application/json", 400),
        (b" " * (MOST_BYTES + 1), "application/json", 413),
        (json.dumps(DECISION).encode(), "text/plain", 415),
    ],
)
def test_a_body_that_is_none(body: bytes, kind: str, status: int, place: Place, api: Browser) -> None:
    answer = api.post("/api/v1/decisions", content=body, headers={**BEARER, "content-type": kind})
    assert answer.status_code == status
    fits(answer, "decide")
    assert place.ops.written == []


def test_half_a_character_is_no_text(place: Place, api: Browser) -> None:
    body = json.dumps({**DECISION, "who": "A\ud800da"}).encode()
    answer = api.post("/api/v1/decisions", content=body, headers={**BEARER, "content-type": "application/json"})
    assert answer.status_code == 400
    fits(answer, "decide")
    assert place.ops.written == []


def test_a_kafka_that_does_not_take_it_is_said(place: Place, api: Browser) -> None:
    place.ops.fails = OperatorError("The commit of tx-0 did not reach Kafka; do it again.")
    answer = api.post("/api/v1/decisions", json=DECISION, headers=BEARER)
    assert answer.status_code == 502
    assert "did not reach Kafka" in fits(answer, "decide")["error"]


def test_what_is_not_there_is_said_in_json(api: Browser) -> None:
    answer = api.get("/api/v2/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
