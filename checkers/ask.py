"""Asks one endpoint over HTTP what became of transactions."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import aiohttp
import orjson
from yarl import URL

from checkback.check_protocol import REMARK_CHARACTERS, CheckRequest
from checkback.protocol import VERSION, Action
from checkback.signature import signed_headers
from checkers.admission import AllowList
from checkers.directory import Endpoint

_VERDICTS = {"commit": Action.COMMIT, "rollback": Action.ROLLBACK, "unknown": Action.UNKNOWN}
_ANSWER_BYTES = 64 * 1024
_ANSWER_BYTES_PER_CHECK = 4 * 1024  # what a batch may have more: id and a remark of 512 characters, all escaped
# No compression: a small answer that unpacks to a large one is not to be had.
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_NOT_THERE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


class Verdict(NamedTuple):
    """What an endpoint said: ``commit``, ``rollback``, ``unknown``, or that nobody was there to say anything."""

    action: Action
    remark: str


class Asked(NamedTuple):
    """One verdict for each request, in their order. When it is *unreachable* for one, it is for all."""

    verdicts: list[Verdict]
    failure: str = ""
    """Why the endpoint counts as not answering (no connection, or too late); empty when it answered."""


class Asker:
    """A pooled HTTP client. Everything but a plain verdict is *unknown*; no connection is *unreachable*.

    ``keys`` are the producer groups' secrets; requests of a group without one are not signed.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        allowed: AllowList,
        keys: Mapping[str, bytes] | None = None,
        wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._session = session
        self._allowed = allowed
        self._keys = dict(keys or {})
        self._wall_clock_ms = wall_clock_ms

    async def ask(self, endpoint: Endpoint, requests: Sequence[CheckRequest]) -> Asked:
        """Ask once about requests of one group. Never raises for what an endpoint does or fails to do."""
        url = endpoint.url
        try:
            target = _target(url, self._allowed)
            body = _body(requests)
            limit = _ANSWER_BYTES + _ANSWER_BYTES_PER_CHECK * (len(requests) - 1)
            status, content = await self._post(target, requests[0].group, body, limit)
        except _NOT_THERE as error:
            return _for_all(requests, Action.UNREACHABLE, f"{url}: {_said(error)}", failed=True)
        except TimeoutError as error:
            return _for_all(
                requests, Action.UNKNOWN, f"{url}: no complete answer in time ({_said(error)})", failed=True
            )
        except (aiohttp.ClientError, OSError) as error:
            return _for_all(requests, Action.UNKNOWN, f"{url}: {_said(error)}")
        except Exception as error:  # noqa: BLE001  (a URL that is none fails in many ways, before anything is sent)
            return _for_all(requests, Action.UNREACHABLE, f"{url}: {_said(error)}", failed=True)
        if content is None:
            said = f"more than {limit} bytes" if status == 200 else f"status {status}"
            return _for_all(requests, Action.UNKNOWN, f"{url} answered with {said}")
        return Asked(_read_one(url, content) if len(requests) == 1 else _read_batch(url, content, requests))

    async def _post(self, target: URL, group: str, body: bytes, limit: int) -> tuple[int, bytes | None]:
        """Status and body, which is None when it is longer than ``limit`` bytes or the status is not 200."""
        headers = _HEADERS
        key = self._keys.get(group)
        if key is not None:
            headers = {**_HEADERS, **signed_headers(key, self._wall_clock_ms(), body)}
        async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                response.close()  # whatever else it says is not read
                return response.status, None
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > limit:
                    response.close()
                    return response.status, None
            return response.status, bytes(content)


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


def _body(requests: Sequence[CheckRequest]) -> bytes:
    if len(requests) == 1:
        return orjson.dumps(requests[0].to_json())
    return orjson.dumps({"version": VERSION, "checks": [request.to_json() for request in requests]})


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _for_all(requests: Sequence[CheckRequest], action: Action, remark: str, *, failed: bool = False) -> Asked:
    remark = remark[:REMARK_CHARACTERS]
    return Asked([Verdict(action, remark)] * len(requests), remark if failed else "")


def _read_one(url: str, content: bytes) -> list[Verdict]:
    try:
        return [_verdict(json.loads(content))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [_no_verdict(url, content)]


def _read_batch(url: str, content: bytes, requests: Sequence[CheckRequest]) -> list[Verdict]:
    try:
        answers: dict[Any, Any] = {answer["id"]: answer for answer in json.loads(content)["answers"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [_no_verdict(url, content)] * len(requests)
    missing = Verdict(Action.UNKNOWN, f"{url} left this one of {len(requests)} checks unanswered"[:REMARK_CHARACTERS])
    verdicts = []
    for request in requests:
        try:
            verdicts.append(_verdict(answers[request.transaction_id]))
        except (ValueError, KeyError, TypeError, AttributeError):
            verdicts.append(missing)
    return verdicts


def _verdict(answer: Any) -> Verdict:
    return Verdict(_VERDICTS[answer["state"]], str(answer.get("remark") or "")[:REMARK_CHARACTERS])


def _no_verdict(url: str, content: bytes) -> Verdict:
    said = content[:100].decode(errors="replace")
    return Verdict(Action.UNKNOWN, f"{url[:REMARK_CHARACTERS]} answered with no verdict: {said!r}")
