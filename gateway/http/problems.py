"""What a client is told when it does not get what it asked for: ``application/problem+json``, RFC 9457. No I/O."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gateway.refusals import GatewayError, RefusalReason

MEDIA_TYPE = "application/problem+json"
_TYPES = "urn:checkback:"


def type_of(refusal: RefusalReason) -> str:
    """The word that programs tell problems apart by."""
    return _TYPES + refusal.name.lower().replace("_", "-")


def refused(error: GatewayError) -> Response:
    """Of what a gateway refuses."""
    headers = {"retry-after": "1"} if error.retriable else {}
    if error.refusal is RefusalReason.WHO:
        headers["www-authenticate"] = 'Bearer realm="checkback"'
    status = error.refusal.value.status
    return _problem(status, type_of(error.refusal), error.refusal.value.title, str(error), headers)


def misdirected(error: HTTPException) -> Response:
    """Of what HTTP itself has words for: no such path, no such method, not JSON."""
    phrase = HTTPStatus(error.status_code).phrase
    kind = _TYPES + phrase.lower().replace(" ", "-")
    detail = error.detail
    if detail == phrase:
        detail = f"{phrase}: /openapi.json says what there is."
    return _problem(error.status_code, kind, phrase, detail, error.headers or {})


def failed() -> Response:
    """Of what is our own mistake."""
    detail = "The gateway has failed at it: its log says how. Whether it was done, nobody knows."
    return _problem(500, f"{_TYPES}failed", "The gateway failed", detail, {})


def _problem(status: int, kind: str, title: str, detail: str, headers: Mapping[str, str]) -> Response:
    content = {"type": kind, "title": title, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)
