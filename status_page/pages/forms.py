"""Bodies of requests: short ones, and from our own forms."""

import asyncio
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request

from checkback.wire.json_reading import read_sayable
from status_page.http.signing_in import SigningIn

MOST_BYTES = 256 * 1024
"""Of a body: 500 transactions, with ids in an alphabet that is long in URLs, fit in."""
_FIELDS = 2_000
_SECONDS = 2.0
"""For a body to come to its end."""


class FormError(Exception):
    """A request that is answered with ``status`` and a sentence; ``wait_seconds``: try again after that time."""

    def __init__(self, status: int, sentence: str, wait_seconds: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = {"retry-after": str(wait_seconds)} if wait_seconds else {}


async def form_of(request: Request) -> ImmutableMultiDict[str, str]:
    """The fields of a form that one of our own pages sent.

    Raises:
        FormError: it is none, too long, or another site's page sent it.
    """
    _refuse_others(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise FormError(415, "Send a form (application/x-www-form-urlencoded).")
    body = await _body(request)
    try:
        fields = parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError as error:
        raise FormError(413, f"A form has at most {_FIELDS} fields.") from error
    return ImmutableMultiDict(fields)


def admit(signing_in: SigningIn, token: str, request: Request) -> None:
    """Let a request through whose sender has shown the token.

    Raises:
        FormError: it is another one, or its address has to wait.
    """
    check = signing_in.admit(token, request.client.host if request.client else "")
    if check.wait_seconds:
        wait = int(check.wait_seconds) + 1
        raise FormError(429, f"Too many wrong tokens came from your address. Wait {wait} s, and try again.", wait)
    if not check.admitted:
        raise FormError(401, "That is not the token.")


async def json_of(request: Request) -> Any:
    """What a program sent.

    Raises:
        FormError: it is not JSON, or too long.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise FormError(415, "Send JSON (content-type: application/json).")
    body = await _body(request)
    try:
        return read_sayable(body)
    except ValueError as error:
        raise FormError(400, "The body is not JSON.") from error


def _refuse_others(request: Request) -> None:
    """Browsers say where a form comes from; the session's cookie and the form's token would keep it out as well."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    elsewhere = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if elsewhere or site not in {"same-origin", "none"}:
        raise FormError(403, "This form was sent by a page of another site.")


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise FormError(413, f"A request has at most {MOST_BYTES:,} bytes.")
    except TimeoutError:
        raise FormError(408, f"The request did not come to its end within {_SECONDS:g} s.") from None
    except ClientDisconnect:
        raise FormError(400, "The client closed the connection.") from None
    return bytes(body)
