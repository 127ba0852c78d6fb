"""Reads what a client has sent: no more of it than is wanted, and every mistake by its name."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from checkback.wire.json_reading import values_in
from gateway.load import converted
from gateway.refusals import GatewayError, RefusalReason

B = TypeVar("B", bound=BaseModel)
_MOST_MISTAKES = 5
_MOST_COUNTED = 200
"""Of more none is spelled: that takes seconds of a million, in which nobody else is answered."""
_SECONDS = 30.0
"""For a body: who stops in the middle of one keeps a connection for no longer."""
_JSON = "application/json"
_UNCOUNTED_BYTES = 16 << 10


async def body_of(request: Request, most_bytes: int, take: Callable[[int], None]) -> bytes:
    """The body; empty when there is none. ``take`` gets the size of each part before it is kept.

    Raises:
        GatewayError: it has more than ``most_bytes``, or ``take`` refuses a part.
        HTTPException: it is not said to be JSON, which no form of a browser's is; or it does not come to its end.
        ClientDisconnect: the client went while it sent it.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                take(len(part))
                body += part
                if len(body) > most_bytes:
                    raise GatewayError(RefusalReason.TOO_LARGE, f"The body has more than {most_bytes:,} bytes.")
    except TimeoutError:
        raise HTTPException(408, f"The body did not come to its end within {_SECONDS:g} s.") from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and (kind != _JSON or request.headers.get("content-encoding", "identity") != "identity"):
        raise HTTPException(415, f"Send JSON that is not compressed: curl --json, or content-type: {_JSON}.")
    return bytes(body)


async def read_counted(body: bytes, model: type[B], most_values: int) -> B:
    """What a body of any length says. Raises as :func:`read_json`, and for more than about ``most_values`` values."""
    if len(body) <= _UNCOUNTED_BYTES:
        return read_json(body, model)
    return await converted(len(body), partial(_counted, body, model, most_values))


def _counted(body: bytes, model: type[B], most_values: int) -> B:
    if values_in(body, most_values) > most_values:
        raise GatewayError(RefusalReason.TOO_LARGE, f"The body has more than {most_values:,} texts and other values.")
    return read_json(body, model)


def read_json(body: bytes, model: type[B]) -> B:
    """What a body says.

    Raises:
        GatewayError: it is not JSON, or something else than the model; the message names each field.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _refused(error) from None


def read_query(query: Mapping[str, str], model: type[B]) -> B:
    """What stands behind the question mark. Raises as :func:`read_json`."""
    try:
        return model.model_validate(dict(query))
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> GatewayError:
    if error.error_count() > _MOST_COUNTED:
        number = f"{error.error_count():,} mistakes"
        return GatewayError(RefusalReason.REQUEST, f"{number}, too many to name: /openapi.json says what is wanted.")
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    said = [_said(one) for one in mistakes[:_MOST_MISTAKES]]
    more = len(mistakes) - len(said)
    return GatewayError(RefusalReason.REQUEST, "; ".join([*said, *([f"and {more} more"] if more else [])]) + ".")


def _said(mistake: Any) -> str:
    where = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "json_invalid":
        return f"The body is not JSON ({mistake['msg'].removeprefix('Invalid JSON: ')})"
    what = "nobody knows this field" if mistake["type"] == "extra_forbidden" else mistake["msg"]
    what = what.removeprefix("Value error, ").replace("Input should", "it should")
    return f"{where:.200}: {what}" if where else what
