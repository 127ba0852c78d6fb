"""The calls of a gateway over HTTP: see ``docs/http.md``, and ``/openapi.json``."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import perf_counter
from typing import Annotated
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive

from access.credentials import Caller
from checkback.answering.check_requests import OF_BROWSERS
from checkback.answering.listening import OwnNames
from checkback.exceptions import ProtocolError
from checkback.listener import LocalTransactionState
from checkback.version import __version__
from checkback.wire.checks import REMARK_CHARACTERS, CheckRequest
from checkback.wire.limits import MAX_HEADER_BYTES, MAX_HEADERS, MAX_KEY_BYTES, MAX_UNFOLDED_BYTES
from checkback.wire.protocol import lawful_group
from gateway.accounts import Accounts
from gateway.http import problems
from gateway.http.inner import standing_routes
from gateway.http.messages import EndBody, EndpointBody, SendBody, TransactionBody, check_json, lawful_instance
from gateway.http.openapi import document
from gateway.http.polls import MOST_CHECKS, MOST_WAIT_SECONDS, Polls
from gateway.http.reading import body_of, read_counted, read_query
from gateway.kafka.announcing import ProducersTopic
from gateway.load import converted
from gateway.once import Once
from gateway.refusals import GatewayError, RefusalReason
from gateway.transactions import ActingAs, GatewayTransactions

_LOGGER = logging.getLogger(__name__)
_SHORT_BYTES = 64 << 10
"""Of a body without messages."""
_MOST_VALUES = 500_000
"""Of a body with many messages: 10,000 of them, each with six headers."""
_MOST_VALUES_OF_ONE = 10 * MAX_HEADERS
_STATES = {state.value: state for state in LocalTransactionState}
_OTHER_PLACES = frozenset({".", ".."})
"""What a URL with it leads to; check services would ask there."""
_GROUP = "/v1/groups/{group:path}"

_KEY_HEADER = "idempotency-key"
_MOST_KEY_CHARACTERS = 255

_Act = Callable[[Caller, Request], Awaitable[Response]]


class PollQuery(BaseModel):
    """How long to wait for checks, and for how many."""

    model_config = ConfigDict(extra="forbid")

    wait: Annotated[float, Field(ge=0, le=MOST_WAIT_SECONDS, allow_inf_nan=False)] = 20.0
    most: Annotated[int, Field(ge=1, le=MOST_CHECKS, alias="max")] = 10


@dataclass
class HttpApi:
    """Each method is a call; what is refused is a problem (:mod:`gateway.http.problems`)."""

    transactions: GatewayTransactions
    accounts: Accounts
    seal: Callable[[CheckRequest], str]
    most_bytes: int
    """Of one message's value."""
    polls: Polls
    producers: ProducersTopic
    repeat_seconds: int
    """Within which an endpoint is to be announced again."""
    ready: Callable[[], bool]
    called: Callable[[str, str, int, float], None] = lambda *_: None
    """Told of each call: protocol, call, status, seconds."""

    def __post_init__(self) -> None:
        self._keys: Once[bytes] = Once()
        """What was posted under the Idempotency-Keys of the last minutes, as far as this process has seen them."""
        self._names = OwnNames()
        self._document = bytes(JSONResponse(document(__version__)).body)

    def app(self) -> Starlette:
        """All of it."""
        routes = [
            *standing_routes(self.ready),
            Route("/openapi.json", self._described, methods=["GET"]),
            self._route(f"{_GROUP}/transactions", POST=self.begin),
            self._route("/v1/transactions/{ticket}/{state}", POST=self.end),
            self._route(f"{_GROUP}/messages", POST=self.send),
            self._route(f"{_GROUP}/checks", GET=self.checks),
            self._route(f"{_GROUP}/endpoints/{{instance}}", PUT=self.announce, DELETE=self.take_back),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _misdirected})
        app.router.redirect_slashes = False
        return app

    async def begin(self, caller: Caller, request: Request) -> Response:
        """Post a half message."""
        sender = self._sender(caller, request)
        most_bytes = max(_in_json(self.most_bytes), _in_json(MAX_UNFOLDED_BYTES))
        body = await body_of(request, most_bytes, request.state.take)
        said = await read_counted(body, TransactionBody, _MOST_VALUES)
        messages = await converted(len(body), partial(said.all_messages, self.most_bytes))
        once = await self._key_of(sender, request, body)
        ticket = await self.transactions.begin(sender, messages, said.options(), once)
        return JSONResponse({"transaction": ticket}, 201)

    async def end(self, caller: Caller, request: Request) -> Response:
        """Say what became of a transaction."""
        state = _STATES.get(request.path_params["state"])
        if state is None:
            raise HTTPException(404, f"A transaction's end is one of: {', '.join(_STATES)}.")
        body = await body_of(request, _SHORT_BYTES, request.state.take)
        remark = (await read_counted(body, EndBody, _MOST_VALUES_OF_ONE)).remark if body else ""
        ticket = request.path_params["ticket"]
        await self.transactions.end(caller, ticket, state, remark[:REMARK_CHARACTERS])
        return Response(status_code=204)

    async def send(self, caller: Caller, request: Request) -> Response:
        """Post a message without a transaction."""
        sender = self._sender(caller, request)
        body = await body_of(request, _in_json(self.most_bytes), request.state.take)
        said = await read_counted(body, SendBody, _MOST_VALUES_OF_ONE)
        message = said.message.message(self.most_bytes)
        once = await self._key_of(sender, request, body)
        name = await self.transactions.send(sender, message, once, said.deliver_at_ms)
        return JSONResponse({"id": name}, 201)

    async def checks(self, caller: Caller, request: Request) -> Response:
        """Wait for checks."""
        if request.method != "GET":  # a HEAD would take them, and show them to nobody
            raise HTTPException(405, headers={"allow": "GET"})
        sender = self._sender(caller, request)
        asked = read_query(request.query_params, PollQuery)
        polling = asyncio.ensure_future(self.polls.poll(caller, sender.group, asked.most, asked.wait))
        gone = asyncio.ensure_future(_gone(request.receive))
        try:
            await asyncio.wait({polling, gone}, return_when=asyncio.FIRST_COMPLETED)
            found = polling.result() if polling.done() else []
        finally:
            polling.cancel()
            gone.cancel()
        return JSONResponse({"checks": [check_json(check, self.seal(check)) for check in found]})

    async def announce(self, caller: Caller, request: Request) -> Response:
        """Announce a check endpoint, or say that it is still there."""
        sender = self._sender(caller, request)
        instance = lawful_instance(request.path_params["instance"])
        body = await body_of(request, _SHORT_BYTES, request.state.take)
        said = await read_counted(body, EndpointBody, _MOST_VALUES)
        now_ms = self.accounts.clock_ms()
        announced = self.producers.announce(said.announcement(sender.group, instance, now_ms))
        await self.transactions.in_time(asyncio.ensure_future(announced))
        return JSONResponse({"repeat_within_s": self.repeat_seconds})

    async def take_back(self, caller: Caller, request: Request) -> Response:
        """Say that a check endpoint is not there any more."""
        sender = self._sender(caller, request)
        taken_back = self.producers.take_back(sender.group, lawful_instance(request.path_params["instance"]))
        await self.transactions.in_time(asyncio.ensure_future(taken_back))
        return Response(status_code=204)

    def _sender(self, caller: Caller, request: Request) -> ActingAs:
        """Before anything of the body is read."""
        group = request.path_params["group"]
        try:  # the server replaces each other byte by the same character, so that two groups would be one
            unquote_to_bytes(request.scope.get("raw_path", b"")).decode()
        except UnicodeDecodeError:
            raise GatewayError(RefusalReason.REQUEST, "The path is not UTF-8: percent-encode it as such.") from None
        if group in _OTHER_PLACES:
            raise GatewayError(RefusalReason.REQUEST, f"A group cannot be named {group}.")
        try:
            lawful_group(group)
        except ProtocolError as error:
            raise GatewayError(RefusalReason.REQUEST, str(error)) from None
        self.accounts.refuse_foreign(caller, group)
        return ActingAs(caller, group)

    async def _key_of(self, sender: ActingAs, request: Request, body: bytes) -> str:
        """The request's Idempotency-Key; empty when it has none.

        Raises:
            GatewayError: the key is not one, or came with something else before.
        """
        key = request.headers.get(_KEY_HEADER)
        if key is None:
            return ""
        if not 0 < len(key) <= _MOST_KEY_CHARACTERS:
            raise GatewayError(RefusalReason.REQUEST, f"Idempotency-Key has 1 to {_MOST_KEY_CHARACTERS} characters.")
        path = request.url.path.encode() + b"\0"
        digest = await converted(len(body), lambda: sha256(path + body).digest())

        async def this() -> bytes:
            return digest

        named = f"{sender.caller.account}\0{sender.group}\0{key}"
        if await asyncio.shield(self._keys.begun(named, this)) != digest:
            raise GatewayError(
                RefusalReason.ONCE,
                "Another request had this Idempotency-Key before: each message needs a new one.",
            )
        return key

    def _route(self, path: str, **acts: _Act) -> Route:
        """The calls at a path, by method."""

        async def answer(request: Request) -> Response:
            act = acts[request.method] if request.method in acts else next(iter(acts.values()))
            began = perf_counter()
            response = await self._answered(act, request)
            self.called("http", act.__name__, response.status_code, perf_counter() - began)
            return response

        return Route(path, answer, methods=[*acts])

    async def _answered(self, act: _Act, request: Request) -> Response:
        try:
            caller = self._caller(request)
            with self.accounts.in_flight.of(caller.account) as request.state.take:
                return await act(caller, request)
        except GatewayError as error:
            return problems.refused(error)
        except HTTPException as error:
            return problems.misdirected(error)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception:
            _LOGGER.exception("%s %s failed", request.method, request.url.path)
            return problems.failed()

    def _caller(self, request: Request) -> Caller:
        if not self.accounts.wanted:
            self._refuse_web_pages(request)
        return self.accounts.of_bearer(request.headers.get("authorization", ""))

    def _refuse_web_pages(self, request: Request) -> None:
        """Without a policy any program on this machine may call, but no page in a browser on it."""
        if not OF_BROWSERS.isdisjoint(request.headers):
            raise GatewayError(
                RefusalReason.RIGHTS, "A page in a browser asks, and there is no access.policy that says who may."
            )
        hosts, (local, _) = request.headers.getlist("host"), request.scope.get("server") or ("", 0)
        if len(hosts) != 1 or not self._names.know(hosts[0], local):  # browsers send no Origin with a rebound GET
            raise HTTPException(421, "Without access.policy, Host has to be a name or an address of this machine.")

    async def _described(self, _: Request) -> Response:
        return Response(self._document, media_type="application/json")


async def _misdirected(_: Request, error: Exception) -> Response:
    return problems.misdirected(error) if isinstance(error, HTTPException) else problems.failed()


async def _gone(receive: Receive) -> None:
    """Until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _in_json(most_bytes: int) -> int:
    """So long a body may be, of a value with so many bytes in base64, with a key and headers beside it."""
    return most_bytes * 4 // 3 + 2 * (MAX_KEY_BYTES + MAX_HEADER_BYTES)
