"""``/api/v1/openapi.json``: the API's description. What dataclasses say is made from them."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter

from status_page.facts import JobFacts
from status_page.transactions.deciding import ACTIONS, MOST_AT_ONCE, SEEN, WHO_CHARACTERS, WHY_CHARACTERS
from status_page.transactions.index import MOST_ROWS
from status_page.transactions.lists import PAGE_ROWS

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_INTEGER: _Schema = {"type": "integer"}
_TIME: _Schema = {"type": "integer", "description": "ms since 1970"}
_KNOWN: _Schema = {"type": ["integer", "null"], "description": "null: not known yet"}
_FLAG: _Schema = {"type": "boolean"}
_PLACE: _Schema = {"type": "string", "pattern": r"^\d+:\d+$", "description": "partition:offset of the half message"}
_SIZE: _Schema = {"type": ["integer", "null"], "description": "bytes; null: there is none"}
_ACTION: _Schema = {"type": "string", "enum": [str(action) for action in ACTIONS]}
_ACTIONS: _Schema = {"type": "array", "items": _ACTION, "description": "what may be done about it"}


@cache
def document(version: str) -> _Schema:
    """The whole of it, OpenAPI 3.1; ``version`` is Checkback's."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Checkback's status page",
            "version": version,
            "description": "How a job stands, which transactions are in doubt or parked, and decisions about them.",
        },
        "servers": [{"url": "../.."}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "http.token"}},
        },
    }


def _paths() -> _Schema:
    half = {"name": "half", "in": "path", "required": True, "schema": _PLACE}
    receipt = {"name": "receipt", "in": "path", "required": True, "schema": _TEXT}
    wrong = (400, 401, 403, 408, 409, 413, 415, 422, 429, 502)
    decide = {
        **_operation("decide", "Write ops: the job judges them within a batch or two.", "Receipt", *wrong, status=202),
        "requestBody": {"required": True, "content": _json("Decision")},
        "security": [{"token": []}],
    }
    in_doubt, parked = "Those in doubt, the oldest first.", "Those that wait for an operator, the longest first."
    read = {
        "status": _operation("status", "How the job stands.", "Status"),
        "transactions": _operation("transactions", in_doubt, "InDoubtList", 422, 503, parameters=_filters()),
        "transactions/{half}": _operation(
            "transaction", "One, wherever it is listed.", "Transaction", 404, 422, parameters=[half]
        ),
        "parked": _operation("parked", parked, "ParkedList", 422, 503, parameters=_filters()),
        "groups": _operation("groups", "Producer groups; at most 1,000.", "Groups"),
        "decisions/{receipt}": _operation(
            "decided", "What was written, and what of it waits.", "Receipt", 404, 503, parameters=[receipt]
        ),
        "openapi.json": _operation("described", "This document.", ""),
    }
    paths = {f"/api/v1/{path}": {"get": operation} for path, operation in read.items()}
    return {**paths, "/api/v1/decisions": {"post": decide}}


def _operation(
    name: str, summary: str, schema: str, *errors: int, status: int = 200, parameters: list[_Schema] | None = None
) -> _Schema:
    good = {"description": summary, "content": _json(schema) if schema else {"application/json": {}}}
    bad = {str(code): {"description": _ERRORS[code], "content": _json("Error")} for code in errors}
    operation = {"operationId": name, "summary": summary, "responses": {str(status): good, **bad}}
    return {**operation, "parameters": parameters} if parameters else operation


_ERRORS = {
    400: "The body is not JSON.",
    401: "The token is missing, or wrong.",
    403: "Nobody may act: http.token is not set.",
    404: "Not there.",
    409: "One of them is neither in doubt nor parked, or nobody can know whether it was delivered: `seen` says then "
    "what its real topic has. Nothing was done.",
    408: "The body did not come to its end in time.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    422: "Something of it is wrong; nothing was done.",
    429: "Too many wrong tokens came from that address: Retry-After says when to try again.",
    503: "Kafka does not answer, another receipt is being read, or the question takes too long: try again, or "
    "ask for less.",
    502: "Kafka did not take all ops; doing it again does no harm.",
}


def _json(schema: str) -> _Schema:
    return {"application/json": {"schema": _reference(schema)}}


def _reference(schema: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{schema}"}


def _filters() -> list[_Schema]:
    said = {
        "group": "of this producer group",
        "topic": "for this real topic",
        "older_than": "in the list for longer than this: 15min, 1h, 2d",
        "id": "whose transaction id begins so, or whose half message lies at this place; the others say nothing then",
        "after": "those that follow: what the page before gave as `after`",
        "before": "those that come before: likewise `before`",
    }
    found: list[_Schema] = [
        {"name": name, "in": "query", "description": what, "schema": _TEXT} for name, what in said.items()
    ]
    most = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": PAGE_ROWS}
    return [*found, {"name": "limit", "in": "query", "description": "rows of a page", "schema": most}]


def _object(**properties: _Schema) -> _Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _array(of: _Schema) -> _Schema:
    return {"type": "array", "items": of}


def _list(row: str) -> _Schema:
    cursor = {"type": ["string", "null"]}
    counts = {"total": _INTEGER, "total_is_exact": _FLAG}
    return _object(rows=_array(_reference(row)), **counts, before=cursor, after=cursor, lists=_reference("Lists"))


def _schemas() -> _Schema:
    facts = TypeAdapter(JobFacts).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    made = facts.pop("$defs")
    status, group = facts["properties"], made["GroupFacts"]["properties"]
    named = {"transaction_id": _TEXT, "group": _TEXT, "topic": _TEXT, "half": _PLACE}
    asked = {"attempt": _INTEGER, "check_max": _INTEGER, "ingested_ms": _TIME, "asked_ms": _TIME}
    oldest = {"type": ["integer", "null"], "description": "ms since 1970 when the oldest in doubt was taken in"}
    decision = {"action": _ACTION, "who": _bounded(WHO_CHARACTERS), "why": _bounded(WHY_CHARACTERS)}
    what = "what the real topics have, for those of which nobody else can know; `delivered` with commit only"
    seen = {"type": "string", "enum": list(SEEN), "description": what}
    chosen = {**_array(_object(half=_PLACE, transaction_id=_TEXT)), "minItems": 1, "maxItems": MOST_AT_ONCE}
    asked_for = _object(**decision, transactions=chosen)
    by_lane = {**_FLAG, "description": "its lane had delivered it: committed, whatever was asked for"}
    rejected = {**_TEXT, "description": "why the job rejected the op, another decision came first; empty: it did not"}
    judged = _object(**named, waiting=_FLAG, by_lane=by_lane, rejected=rejected)
    return {
        **made,
        "Lists": _object(
            complete={**_FLAG, "description": "whether both topics were read to their end"},
            behind={**_INTEGER, "description": "records that were not read yet"},
            away_seconds={"type": ["number", "null"], "description": "for how long Kafka has not answered"},
            problem={**_TEXT, "description": "what is wrong, and what to do"},
            foreign={**_INTEGER, "description": "rows of the status topic that the job cannot have written"},
        ),
        "Status": _object(
            **{**status, "in_doubt": _KNOWN, "in_doubt_oldest_ms": oldest, "parked": _KNOWN}, lists=_reference("Lists")
        ),
        "InDoubt": _object(
            **named,
            **asked,
            last_answer=_TEXT,
            next_check_ms=_TIME,
            answered_ms={**_TIME, "description": "when the last check was answered; 0: not yet"},
            misses={**_INTEGER, "description": "checks in a row for which nobody could be asked"},
            remark={**_TEXT, "description": "of the last answer"},
            actions=_ACTIONS,
            why={**_TEXT},
        ),
        "Parked": _object(
            **named,
            reason=_TEXT,
            answer={**_TEXT, "description": "the last answer to its checks; empty: not known"},
            parked_ms=_TIME,
            key_bytes=_SIZE,
            value_bytes=_SIZE,
            kept={**_FLAG, "description": "whether the job has it"},
            undecided={**_FLAG, "description": "false: it was committed, but could not be delivered"},
            actions=_ACTIONS,
        ),
        "InDoubtList": _list("InDoubt"),
        "ParkedList": _list("Parked"),
        "Transaction": _object(
            half=_PLACE,
            in_doubt={"anyOf": [_reference("InDoubt"), {"type": "null"}]},
            parked=_array(_reference("Parked")),
            lists=_reference("Lists"),
        ),
        "Group": _object(**group, in_doubt=_KNOWN),
        "TopicInDoubt": _object(
            group=_TEXT,
            topic=_TEXT,
            number=_INTEGER,
            unasked={**_TEXT, "description": "why nobody can be asked; empty: somebody can, or that is not known"},
        ),
        "Groups": _object(
            groups=_array(_reference("Group")),
            in_doubt={
                "anyOf": [_array(_reference("TopicInDoubt")), {"type": "null"}],
                "description": "those with most first; null: not known yet",
            },
            counted=_FLAG,
            lists=_reference("Lists"),
        ),
        "Decision": {**asked_for, "properties": {**asked_for["properties"], "seen": seen}},
        "Receipt": _object(
            receipt=_TEXT,
            time_ms=_TIME,
            **decision,
            transactions=_array(judged),
        ),
        "Error": _object(error=_TEXT),
    }


def _bounded(characters: int) -> _Schema:
    return {"type": "string", "minLength": 1, "maxLength": characters}
