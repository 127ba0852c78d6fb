"""The same data for programs: JSON, described by ``/api/v1/openapi.json``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from checkback.exceptions import CheckbackError, ProtocolError
from checkback.operations.in_doubt import InDoubt
from checkback.wire.protocol import Action, HalfPosition
from status_page import overview
from status_page.api.openapi import document
from status_page.facts import MOST_GROUPS, GroupFacts
from status_page.pages.forms import FormError, json_of
from status_page.site import Site
from status_page.transactions import lists
from status_page.transactions.deciding import (
    MOST_AT_ONCE,
    SEEN,
    Chosen,
    NobodyKnowsError,
    OperatorDecision,
    Receipt,
    actions_for,
    problems,
)
from status_page.transactions.index import Index, Parked
from status_page.words import why_in_doubt

_LIST = Callable[[Index, lists.ListQuery, int], lists.ListPage]


class Api:
    """Answers programs. Reading is for whoever reaches the page; deciding needs ``Authorization: Bearer TOKEN``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/v1/status", self._guarded(self.status)),
            Route("/api/v1/transactions", self._guarded(self.transactions)),
            Route("/api/v1/transactions/{half}", self._guarded(self.transaction)),
            Route("/api/v1/parked", self._guarded(self.parked)),
            Route("/api/v1/groups", self._guarded(self.groups)),
            Route("/api/v1/decisions", self.decide, methods=["POST"]),
            Route("/api/v1/decisions/{receipt}", self._guarded(self.decided)),
            Route("/api/v1/openapi.json", self._guarded(self.described)),
            Route("/api/{rest:path}", self._guarded(self.nothing)),
        ]

    def status(self, _: Request) -> Any:
        """The job's facts, and how far its lists can be relied on."""
        return {**asdict(self._site.facts()), "lists": self._lists()}

    def transactions(self, request: Request) -> Any:
        """Those in doubt."""
        return self._list(request, lists.in_doubt)

    def parked(self, request: Request) -> Any:
        """Those that wait for an operator."""
        return self._list(request, lists.parked)

    def transaction(self, request: Request) -> Any:
        """One, wherever it is listed."""
        try:
            half = HalfPosition.parse(request.path_params["half"])
        except ProtocolError as error:
            raise FormError(422, "Name the place of the half message, for example 3:4711.") from error
        row, parked = self._site.index.in_doubt_at(half), self._site.index.parked_at(half)
        if row is None and not parked:
            raise FormError(404, "It is neither in doubt nor parked, as far as was read.")
        return {
            "half": str(half),
            "in_doubt": next(iter(self._rows([row] if row else [])), None),
            "parked": self._rows(parked),
            "lists": self._lists(),
        }

    def groups(self, _: Request) -> Any:
        """Producer groups, those with most that is open or parked first; at most 1,000."""
        facts = self._site.facts()
        by_topic = overview.in_doubt_by_topic(self._site.index, facts)
        in_doubt = overview.by_group(by_topic)
        known, groups = self._site.standing.complete, overview.all_groups(facts, in_doubt)[:MOST_GROUPS]
        rows = [{**asdict(one), "in_doubt": in_doubt.get(one.group, 0) if known else None} for one in groups]
        topics = [one._asdict() for one in by_topic]
        return {"groups": rows, "in_doubt": topics if known else None, "counted": facts.counted, "lists": self._lists()}

    async def decide(self, request: Request) -> Response:
        """Write ops."""
        try:
            self._admit(request)
            body = await json_of(request)
            return JSONResponse(await run_in_threadpool(self._decide, body), 202)
        except FormError as error:
            return _refused(error)

    def decided(self, request: Request) -> Any:
        """What was written, and how many of these the job has not judged."""
        receipt = self._site.deciding.receipt(request.path_params["receipt"])
        if receipt is None:
            raise FormError(404, "The job remembers no such decision since its start. 'checkback audit' lists them.")
        return self._receipt(receipt)

    def described(self, _: Request) -> Any:
        """The OpenAPI document."""
        return document(self._site.facts().version)

    def nothing(self, _: Request) -> Any:
        """There is nothing."""
        raise FormError(404, "There is no such thing: /api/v1/openapi.json says what there is.")

    def _guarded(self, answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
        def answered(request: Request) -> Response:
            try:
                return JSONResponse(answer(request))
            except FormError as error:
                return _refused(error)

        return answered

    def _list(self, request: Request, of: _LIST) -> Any:
        try:
            what = lists.asked(request.query_params)
        except ValueError as error:
            raise FormError(422, str(error)) from error
        listed = of(self._site.index, what, self._site.now_ms())
        return {
            "rows": self._rows(listed.rows),
            "total": listed.total.number,
            "total_is_exact": listed.total.exact,
            "before": listed.previous or None,
            "after": listed.following or None,
            "lists": self._lists(),
        }

    def _rows(self, rows: Sequence[InDoubt | Parked]) -> list[dict[str, Any]]:
        groups = overview.by_name(self._site.facts())
        return [_row(row, groups) for row in rows]

    def _lists(self) -> dict[str, Any]:
        return self._site.standing._asdict()

    def _admit(self, request: Request) -> None:
        if not self._site.signing_in.possible:
            raise FormError(403, "Nobody may act here: http.token is not set.")
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise FormError(401, "Send the token: Authorization: Bearer TOKEN.")
        admission = self._site.signing_in.admit(token.strip(), request.client.host if request.client else "")
        if admission.wait_seconds:
            wait = int(admission.wait_seconds) + 1
            raise FormError(429, f"Too many wrong tokens came from your address. Wait {wait} s.", wait)
        if not admission.admitted:
            raise FormError(401, "That is not the token.")

    def _decide(self, body: Any) -> Any:
        names = _names(body)
        chosen, missing = self._site.deciding.chosen(names)
        if missing:
            raise FormError(409, f"Neither in doubt nor parked: {', '.join(missing[:10])}. Nothing was done.")
        seen = body.get("seen", "")
        wrong = problems(body["action"], chosen, body["who"], body["why"], seen)
        if wrong:
            raise FormError(422, " ".join([*wrong, "Nothing was done."]))
        who, why = body["who"].strip(), body["why"].strip()
        decision = OperatorDecision(Action(body["action"]), tuple(chosen), who, why, SEEN.get(seen))
        try:
            return self._receipt(self._site.deciding.write(decision))
        except NobodyKnowsError as error:
            raise FormError(409, str(error)) from error
        except CheckbackError as error:
            raise FormError(502, f"{error} Doing it twice does no harm.") from error

    def _receipt(self, receipt: Receipt) -> dict[str, Any]:
        decision = receipt.decision
        waiting = self._site.deciding.waiting(receipt, self._site.view.facts().batch)
        rejected = self._site.deciding.rejected(receipt, waiting)
        return {
            "receipt": receipt.name,
            "time_ms": receipt.time_ms,
            "action": decision.action,
            "who": decision.who,
            "why": decision.why,
            "transactions": [
                {
                    **_named(one),
                    "waiting": one.name in waiting,
                    "by_lane": one.half in receipt.by_lane,
                    "rejected": rejected.get(one.name, ""),
                }
                for one in decision.chosen
            ],
        }


def _row(row: InDoubt | Parked, groups: Mapping[str, GroupFacts]) -> dict[str, Any]:
    said = {**row._asdict(), "half": str(row.half), "actions": list(actions_for(row))}
    return {**said, "why": why_in_doubt(row, groups[row.group])} if isinstance(row, InDoubt) else said


def _named(one: Chosen) -> dict[str, Any]:
    return {"half": str(one.half), "transaction_id": one.transaction_id, "group": one.group, "topic": one.topic}


ID = "transaction_id"


def _names(body: Any) -> list[str]:
    """What is to be decided about.

    Raises:
        FormError: the body is not as ``openapi.json`` says.
    """
    texts = ("action", "who", "why")
    if not isinstance(body, dict) or not all(isinstance(body.get(name), str) for name in texts):
        raise FormError(422, f"Send an object with texts for {', '.join(texts)}. Nothing was done.")
    if not isinstance(body.get("seen", ""), str):
        raise FormError(422, "seen must be text. Nothing was done.")
    named = body.get("transactions")
    if not isinstance(named, list) or not 0 < len(named) <= MOST_AT_ONCE:
        raise FormError(422, f"transactions must be a list of 1 to {MOST_AT_ONCE}. Nothing was done.")
    for one in named:
        if not isinstance(one, dict) or not isinstance(one.get("half"), str) or not isinstance(one.get(ID), str):
            raise FormError(422, f"Each of transactions must have texts for half and {ID}. Nothing was done.")
    return [f"{one['half']} {one[ID]}" for one in named]


def _refused(error: FormError) -> Response:
    headers = {"retry-after": str(error.wait_seconds)} if error.wait_seconds else {}
    if error.status == 401:
        headers["www-authenticate"] = 'Bearer realm="checkback"'
    return JSONResponse({"error": error.sentence}, error.status, headers=headers)
