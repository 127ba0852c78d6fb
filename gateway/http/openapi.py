"""``/openapi.json``: the description of the calls. What bodies say is made from their models."""

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway.http.messages import HEADER_SCHEMA, EndBody, EndpointBody, MessageBody, SendBody, TransactionBody
from gateway.http.polls import MOST_CHECKS, MOST_WAIT_SECONDS
from gateway.http.problems import MEDIA_TYPE

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_COUNT: _Schema = {"type": "integer", "minimum": 0}
_MS: _Schema = {"type": "integer", "description": "ms since 1970"}
_TICKET: _Schema = {"type": "string", "pattern": r"^[\w.-]+$", "description": "what POST .../transactions gave"}
_SEVERAL: _Schema = {"type": "integer", "minimum": 1, "maximum": MOST_CHECKS, "default": 10}
_SECONDS: _Schema = {"type": "number", "minimum": 0, "maximum": MOST_WAIT_SECONDS, "default": 20}
_BODIES: tuple[type[BaseModel], ...] = (TransactionBody, SendBody, EndBody, MessageBody, EndpointBody)
_REFERENCES = "#/components/schemas/{model}"
_GROUP_PATH = "/v1/groups/{group}"
_ERRORS = {
    400: "Something of it is wrong, and nothing was done: detail says what.",
    401: "The token is missing, or is nobody's.",
    403: "The access policy does not let this account.",
    404: "Kafka has no such topic.",
    405: "Not with this method.",
    413: "It is too large.",
    415: "It is not JSON, or is compressed.",
    422: "Another request came with this Idempotency-Key before.",
    429: "Too much at once: send it again after Retry-After.",
    500: "The gateway's own mistake: its log has it.",
    503: "Kafka has not taken it, or has not said so: send it again, under the same Idempotency-Key.",
}
_ALWAYS = (400, 401, 403, 405, 500)
_WRITES = (*_ALWAYS, 413, 415, 429, 503)
_POSTS = (*_WRITES, 404, 422)


@cache
def document(version: str) -> _Schema:
    """The whole of it, OpenAPI 3.1; ``version`` is Checkback's."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Checkback's gateway",
            "version": version,
            "description": "Half messages for Kafka: post one, end it, and say what became of it when you are asked.",
        },
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "made by checkback access token"}
            },
        },
        "security": [{"token": []}, {}],
    }


def _paths() -> _Schema:
    group, once = _parameter("path", "group", _TEXT), _parameter("header", "Idempotency-Key", _bounded(255))
    ticket = _parameter("path", "ticket", _TICKET)
    endpoint = [group, _parameter("path", "instance", {**_bounded(64), "pattern": "^[a-zA-Z0-9._-]+$"})]
    waiting = [group, _parameter("query", "wait", _SECONDS), _parameter("query", "max", _SEVERAL)]
    begin = _operation("begin", "Post a half message.", "Begun", _POSTS, [group, once], status=201)
    send = _operation("send", "Post a message without a transaction.", "Sent", _POSTS, [group, once], status=201)
    announce = _operation("announce", "Announce where checks are answered.", "Announced", _WRITES, endpoint)
    return {
        f"{_GROUP_PATH}/transactions": {"post": {**begin, **_body("TransactionBody")}},
        **{f"/v1/transactions/{{ticket}}/{state}": {"post": _end(state, ticket)} for state in _ENDS},
        f"{_GROUP_PATH}/messages": {"post": {**send, **_body("SendBody")}},
        f"{_GROUP_PATH}/checks": {
            "get": _operation("checks", "Wait for checks.", "Checks", (*_ALWAYS, 429), waiting),
        },
        f"{_GROUP_PATH}/endpoints/{{instance}}": {
            "put": {**announce, **_body("EndpointBody")},
            "delete": _operation("take_back", "Take an announcement back.", "", _WRITES, endpoint, status=204),
        },
        "/openapi.json": {"get": _open("described", "This document.", "application/json")},
        "/live": {"get": _open("live", "Whether the gateway lives.", "text/plain")},
        "/ready": {"get": _open("ready", "Whether it takes calls; else 503.", "text/plain", 503)},
    }


_ENDS = {
    "commit": "Have it delivered; also the answer to a check.",
    "rollback": "Have it forgotten; also the answer to a check.",
    "unknown": "It is not known yet: you are asked again.",
}


def _end(state: str, ticket: _Schema) -> _Schema:
    made = _operation(state, _ENDS[state], "", _WRITES, [ticket], status=204)
    return {**made, **_body("EndBody", required=False)}


def _operation(
    name: str, summary: str, schema: str, errors: tuple[int, ...], parameters: list[_Schema], *, status: int = 200
) -> _Schema:
    good = {"description": summary, **({"content": _json(schema)} if schema else {})}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {str(status): good, **{str(code): _problem(code) for code in sorted(errors)}},
    }


def _open(name: str, summary: str, kind: str, *others: int) -> _Schema:
    responses = {str(status): {"description": summary, "content": {kind: {}}} for status in (200, *others)}
    return {"operationId": name, "summary": summary, "responses": responses, "security": []}


def _problem(code: int) -> _Schema:
    headers = {"Retry-After": {"schema": {"type": "integer"}}} if code in {429, 503} else {}
    return {
        "description": _ERRORS[code],
        "content": {MEDIA_TYPE: {"schema": _reference("Problem")}},
        **({"headers": headers} if headers else {}),
    }


def _parameter(place: str, name: str, schema: _Schema) -> _Schema:
    return {"name": name, "in": place, "schema": schema, **({"required": True} if place == "path" else {})}


def _body(model: str, *, required: bool = True) -> _Schema:
    return {"requestBody": {"required": required, "content": _json(model)}}


def _json(schema: str) -> _Schema:
    return {"application/json": {"schema": _reference(schema)}}


def _reference(schema: str) -> _Schema:
    return {"$ref": _REFERENCES.format(model=schema)}


def _bounded(characters: int) -> _Schema:
    return {"type": "string", "minLength": 1, "maxLength": characters}


def _object(*optional: str, **properties: _Schema) -> _Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _schemas() -> _Schema:
    _, made = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REFERENCES)
    content = {"type": "string", "contentEncoding": "base64", "description": "where it is no text"}
    nullable = {"type": ["string", "null"]}
    message = _object(
        *("key", "key_base64", "value", "value_base64", "partition"),
        topic=_TEXT,
        key=nullable,
        key_base64=content,
        value={**nullable, "description": "absent where left_out says how large it is"},
        value_base64=content,
        headers={"type": "array", "items": HEADER_SCHEMA},
        partition=_COUNT,
    )
    check = _object(
        "left_out",
        transaction=_TICKET,
        id={**_TEXT, "description": "cb-id of the messages"},
        group=_TEXT,
        topic=_TEXT,
        messages={"type": "array", "items": _reference("CheckedMessage"), "minItems": 1},
        attempt=_COUNT,
        check_max=_COUNT,
        ingested_ms=_MS,
        left_out={**_COUNT, "description": "bytes of a value that did not come with the check"},
    )
    return {
        **_tidied(made["$defs"]),
        "Begun": _object(transaction=_TICKET),
        "Sent": _object(id={**_TEXT, "description": "cb-id of the message"}),
        "CheckedMessage": message,
        "Check": check,
        "Checks": _object(checks={"type": "array", "items": _reference("Check")}),
        "Announced": _object(repeat_within_s={**_COUNT, "description": "announce it again within so many seconds"}),
        "Problem": _object(
            type={**_TEXT, "format": "uri", "description": "which problem; urn:checkback:no-topic"},
            title=_TEXT,
            status=_COUNT,
            detail={**_TEXT, "description": "what is wrong, and what to do"},
        ),
    }


def _tidied(made: Any) -> Any:
    """Without titles that say a field's name again, and defaults that say that there is none."""
    if isinstance(made, list):
        return [_tidied(one) for one in made]
    if not isinstance(made, dict):
        return made
    idle = {name for name in ("title", "default") if not isinstance(made.get(name), dict)}
    idle -= {"default"} if made.get("default") else set()
    return {name: _tidied(one) for name, one in made.items() if name not in idle}
