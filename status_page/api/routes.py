"""The same data for programs: JSON, described by ``/api/v1/openapi.json``."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from checkback.exceptions import CheckbackError
from checkback.operations.in_doubt import InDoubt
from checkback.wire.protocol import Action
from status_page import overview
from status_page.api.openapi import document
from status_page.facts import MOST_GROUPS
from status_page.pages.forms import FormError, admit, json_of
from status_page.site import Site
from status_page.transactions import lists
from status_page.transactions.deciding import (
    MOST_AT_ONCE,
    SEEN,
    NobodyKnowsError,
    actions_for,
    problems,
)
from status_page.transactions.index import Index, Parked, place_in
from status_page.transactions.receipts import OperatorDecision, Receipt
from status_page.words import why_in_doubt

_LIST = Callable[[Index, lists.ListQuery, int], lists.ListPage]


class Api:
    """Answers programs. Reading is for whoever reaches the page; deciding needs ``Authorization: Bearer TOKEN``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/v1/status", _json(self.status)),
            Route("/api/v1/transactions", _json(self.transactions)),
            Route("/api/v1/transactions/{half}", _json(self.transaction)),
            Route("/api/v1/parked", _json(self.parked)),
            Route("/api/v1/groups", _json(self.groups)),
            Route("/api/v1/decisions", self.decide, methods=["POST"]),
            Route("/api/v1/decisions/{receipt}", _json(self.decided)),
            Route("/api/v1/openapi.json", _json(self.described)),
            Route("/api/{rest:path}", _json(self.nothing)),
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
        half = place_in(request.path_params["half"])
        if half is None:
            raise FormError(422, "Name the place of the half message, for example 3:4711.")
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
        self._admit(request)
        body = await json_of(request)
        return JSONResponse(await run_in_threadpool(self._decide, body), 202)

    def decided(self, request: Request) -> Any:
        """What was written, and how many of these the job has not judged."""
        return self._receipt(self._site.receipt(request.path_params["receipt"]))

    def described(self, _: Request) -> Any:
        """The OpenAPI document."""
        return document(self._site.facts().version)

    def nothing(self, _: Request) -> Any:
        """There is nothing."""
        raise FormError(404, "There is no such thing: /api/v1/openapi.json says what there is.")

    def refused(self, _: Request, error: Any) -> Response:
        """A :class:`FormError`."""
        asked = {"www-authenticate": 'Bearer realm="checkback"'} if error.status == 401 else {}
        return JSONResponse({"error": error.sentence}, error.status, headers=error.headers | asked)

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
        groups = overview.GroupsByName(self._site.facts())

        def why(row: InDoubt | Parked) -> dict[str, str]:
            return {"why": why_in_doubt(row, groups[row.group])} if isinstance(row, InDoubt) else {}

        return [{**row._asdict(), "half": str(row.half), "actions": [*actions_for(row)], **why(row)} for row in rows]

    def _lists(self) -> dict[str, Any]:
        return self._site.standing._asdict()

    def _admit(self, request: Request) -> None:
        if not self._site.signing_in.possible:
            raise FormError(403, "Nobody may act here: http.token is not set.")
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise FormError(401, "Send the token: Authorization: Bearer TOKEN.")
        admit(self._site.signing_in, token.strip(), request)

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
        waiting, rejected = self._site.outcome(receipt)
        return {
            "receipt": receipt.name,
            "time_ms": receipt.time_ms,
            "action": decision.action,
            "who": decision.who,
            "why": decision.why,
            "transactions": [
                {
                    "half": str(one.half),
                    "transaction_id": one.transaction_id,
                    "group": one.group,
                    "topic": one.topic,
                    "waiting": one.name in waiting,
                    "by_lane": one.half in receipt.by_lane,
                    "rejected": rejected.get(one.name, ""),
                }
                for one in decision.chosen
            ],
        }


def _json(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    return lambda request: JSONResponse(answer(request))


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
