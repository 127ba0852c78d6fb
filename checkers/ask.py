"""Asks one endpoint over HTTP what became of transactions."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple

import aiohttp
import orjson
from yarl import URL

from checkback.wire.checks import REMARK_CHARACTERS, CheckRequest
from checkback.wire.lanes import LaneFact, fact_answered
from checkback.wire.protocol import VERSION, Action
from checkback.wire.signature import SIGNATURE_HEADER, answer_fits, signed_headers
from checkers.directory import Endpoint
from checkers.http.admission import FOUND, AllowList
from checkers.http.names import Names
from checkers.http.session import BoundedConnector, reason
from checkers.http.shares import is_ours
from conf.redaction import redacted

_VERDICTS = {"commit": Action.COMMIT, "rollback": Action.ROLLBACK, "unknown": Action.UNKNOWN}
_ANSWER_BYTES = 64 * 1024
_ANSWER_BYTES_PER_CHECK = 4 * 1024  # what a batch may have more: id and a remark of 512 characters, all escaped
REQUEST_BYTES = 8 * 1024 * 1024
"""A check whose request would be longer is asked without its message: our endpoint takes no more, either."""
_TOO_LARGE = 413
_FAILED = 500
"""The application was asked and failed. No other status than 200 says that it was."""
_NAME_SECONDS = 3.0
_SHOWN_TYPES = frozenset({"application/json", "text/html", "text/plain"})
# No compression: a small answer that unpacks to a large one is not to be had.
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_NOT_THERE = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.ClientResponseError,
)

_NOT_SIGNED = "answered without the signature of its group's key: upgrade its SDK, or somebody else answers there"


class EndpointVerdict(NamedTuple):
    """What an endpoint said: ``commit``, ``rollback``, ``unknown``, or that nobody was there to say anything."""

    action: Action
    remark: str
    fact: LaneFact | None = None
    """What it rests on, of a half message that names a lane; None: nothing is known of that."""


class EndpointAnswer(NamedTuple):
    """One verdict for each request, in their order. When it is *unreachable* for one, it is for all."""

    verdicts: list[EndpointVerdict]
    failure: str = ""
    """Why the endpoint counts as not answering (no connection, or too late); empty when it answered."""
    lacking: str = ""
    """What of our own means was lacking, so that nobody was asked: the verdicts say nothing then."""
    alone: bool = False
    """The endpoint takes no request so large: each check is to be asked alone. The verdicts say nothing then."""
    unsigned: bool = False
    """The group has a key, and nobody who knows it has answered: others may."""


class _Response(NamedTuple):
    """What came back over HTTP, whoever sent it."""

    status: int
    content: bytes
    """The body, or its first bytes if it is longer than an answer; empty if the status is not 200."""
    complete: bool
    signed: bool
    """With the key of the group, if that has one."""
    content_type: str

    @property
    def answers_checks(self) -> bool:
        """Whether a check endpoint sent it: an answer, be it broken or too long, or an application that failed.

        Every other response comes from a proxy, a login, another application, or a check endpoint of another group.
        """
        like_an_answer = b'"state"' in self.content or b'"answers"' in self.content
        return self.status == _FAILED or (
            self.status == 200 and self.content.lstrip().startswith(b"{") and like_an_answer
        )

    def __str__(self) -> str:
        # no text of its own: whoever announces an address could read through the page what answers there
        return f"status {self.status}{f', {self.content_type}' if self.content_type in _SHOWN_TYPES else ''}"


class Asker:
    """A pooled HTTP client. No connection, and an answer that no check endpoint gives, is *unreachable*.

    Everything else except a plain verdict is *unknown*.

    ``keys`` are the producer groups' secrets: of a group with one, requests are signed, and answers must be. ``names``
    finds hosts' addresses.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        allowed: AllowList,
        keys: Mapping[str, bytes] | None = None,
        wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        names: Names | None = None,
    ) -> None:
        self._session = session
        self._allowed = allowed
        self._keys = dict(keys or {})
        self._wall_clock_ms = wall_clock_ms
        self._names = names or Names(_NAME_SECONDS)
        self._long_answers = asyncio.Lock()

    async def ask(self, endpoint: Endpoint, requests: Sequence[CheckRequest]) -> EndpointAnswer:
        """Ask once about requests of one group. Never raises for what an endpoint does or fails to do."""
        bodies = {number: body for number, request in enumerate(requests) if (body := _body(request)) is not None}
        asked = EndpointAnswer([])
        if bodies:
            asked = await self._ask(endpoint.url, [requests[number] for number in bodies], list(bodies.values()))
        if len(bodies) == len(requests) or asked.lacking or asked.alone:
            return asked
        verdicts = dict(zip(bodies, asked.verdicts, strict=True))
        unfit = EndpointVerdict(Action.UNKNOWN, "this check cannot be asked: its message has text that is not Unicode")
        return asked._replace(verdicts=[verdicts.get(number, unfit) for number in range(len(requests))])

    async def _ask(self, url: str, requests: Sequence[CheckRequest], bodies: Sequence[bytes]) -> EndpointAnswer:
        keyed = requests[0].group in self._keys
        try:
            response = await self._post(url, requests, bodies)
            if response.status == _TOO_LARGE and len(requests) == 1:
                response = await self._post(url, requests, [_head(requests[0])])
        except Exception as error:  # noqa: BLE001  (a URL that is none fails in many ways)
            return _failed(redacted(url), requests, error, keyed=keyed)
        if len(response.content) > _ANSWER_BYTES:  # it may take 0.1 s to read, and others must have turns between
            async with self._long_answers:
                await asyncio.sleep(0)
        url = redacted(url)  # for people, from here on
        verdicts = _read(url, response.content, requests) if response.complete else None
        if verdicts is not None and response.signed:
            return EndpointAnswer(verdicts)
        if verdicts is not None:
            return _no_verdict_of_all(requests, f"{url} {_NOT_SIGNED}", keyed=True)
        if response.status == _TOO_LARGE and len(requests) > 1:
            return EndpointAnswer([], alone=True, unsigned=keyed)
        if not response.answers_checks:
            remark = f"{url}: no check endpoint answered: {response}"
            return _for_all(requests, Action.UNREACHABLE, remark, failed=True)
        return _no_verdict_of_all(requests, f"{url} answered with no verdict: {response}", keyed=not response.signed)

    async def _post(self, url: str, requests: Sequence[CheckRequest], bodies: Sequence[bytes]) -> _Response:
        target = _target(url, self._allowed)
        group, limit = requests[0].group, _limit(requests)
        host = target.raw_host or ""
        if not _is_address(host):  # those are not names, and were judged already
            FOUND.set(await self._names.addresses(group, host))
        body = bodies[0] if len(bodies) == 1 else b'{"version":%d,"checks":[%b]}' % (VERSION, b",".join(bodies))
        headers = dict(_HEADERS)
        key = self._keys.get(group)
        if key is not None:
            headers |= signed_headers(key, self._wall_clock_ms(), body)
        if isinstance(self._session.connector, BoundedConnector) and self._session.connector.full:
            headers["Connection"] = "close"
        async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as response:
            content, complete = await _content(response, limit)
            given = response.headers.get(SIGNATURE_HEADER, "")
            signed = key is None or (complete and answer_fits(key, headers[SIGNATURE_HEADER], content, given))
            return _Response(response.status, content, complete, signed, response.content_type)


async def _content(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """The body, and whether it is that of an answer, complete."""
    if response.status != 200:
        response.close()
        return b"", False
    received = bytearray()
    async for chunk in response.content.iter_any():
        received += chunk
        if len(received) > limit:
            response.close()
            return bytes(received), False
    return bytes(received), True


def _target(url: str, allowed: AllowList) -> URL:
    """The URL to ask; a host that is an address is judged here, since it is never resolved."""
    target = URL(url)
    host = target.host
    if target.scheme not in {"http", "https"} or not host:
        raise aiohttp.InvalidURL(url, "it is neither http:// nor https:// with a host")
    refusal = allowed.refusal_of_literal(host)
    if refusal is not None:
        raise aiohttp.InvalidURL(url, refusal)
    return target


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _limit(requests: Sequence[CheckRequest]) -> int:
    """Bytes of an answer."""
    return _ANSWER_BYTES + _ANSWER_BYTES_PER_CHECK * (len(requests) - 1)


def _body(request: CheckRequest) -> bytes | None:
    """One check as JSON, without its message if that is too large; None when it cannot be said in JSON."""
    try:
        body = orjson.dumps(request.to_json())
    except (TypeError, ValueError):
        return None
    return body if len(body) <= REQUEST_BYTES else _head(request)


def _head(request: CheckRequest) -> bytes:
    return orjson.dumps(request.head().to_json())


def _failed(url: str, requests: Sequence[CheckRequest], error: Exception, *, keyed: bool) -> EndpointAnswer:
    said = f"{url}: {reason(error)}"
    if is_ours(error):
        return EndpointAnswer([], lacking=said[:REMARK_CHARACTERS])
    if isinstance(error, TimeoutError) and not isinstance(error, _NOT_THERE):
        return _no_verdict_of_all(requests, said, keyed=keyed, failed=True)
    if isinstance(error, aiohttp.ClientError) and not isinstance(error, _NOT_THERE):
        return _no_verdict_of_all(requests, said, keyed=keyed)
    return _for_all(requests, Action.UNREACHABLE, said, failed=True)  # nothing was sent, or not to an HTTP server


def _no_verdict_of_all(
    requests: Sequence[CheckRequest], remark: str, *, keyed: bool, failed: bool = False
) -> EndpointAnswer:
    """Of a group with a key it is a failure, and others are asked: an honest one signs, or is not reached."""
    if keyed:
        return _for_all(requests, Action.UNREACHABLE, remark, failed=True)._replace(unsigned=True)
    return _for_all(requests, Action.UNKNOWN, remark, failed=failed)


def _for_all(requests: Sequence[CheckRequest], action: Action, remark: str, *, failed: bool = False) -> EndpointAnswer:
    remark = remark[:REMARK_CHARACTERS]
    return EndpointAnswer([EndpointVerdict(action, remark)] * len(requests), remark if failed else "")


def _loads(content: bytes) -> Any:
    """JSON, whose numbers stay text: none is needed, and one of a million digits is an error otherwise."""
    return json.loads(content, parse_int=str, parse_float=str)


def _read(url: str, content: bytes, requests: Sequence[CheckRequest]) -> list[EndpointVerdict] | None:
    """The verdicts in an answer; None if it has none."""
    try:
        answer = _loads(content)
        if len(requests) == 1:
            return [_verdict(answer)]
        named = (each for each in answer["answers"] if isinstance(each, dict) and isinstance(each.get("id"), str))
        answers = {each["id"]: each for each in named}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    missing = EndpointVerdict(
        Action.UNKNOWN, f"{url} left this one of {len(requests)} checks unanswered"[:REMARK_CHARACTERS]
    )
    verdicts = []
    for request in requests:
        try:
            verdicts.append(_verdict(answers[request.transaction_id]))
        except (ValueError, KeyError, TypeError, AttributeError):
            verdicts.append(missing)
    return verdicts


def _verdict(answer: Any) -> EndpointVerdict:
    remark = str(answer.get("remark") or "")[:REMARK_CHARACTERS]
    return EndpointVerdict(_VERDICTS[answer["state"]], remark, fact_answered(answer))
