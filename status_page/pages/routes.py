"""The pages that show."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from checkback.exceptions import CheckbackError
from checkback.operations.in_doubt import InDoubt
from checkback.wire.protocol import HalfPosition
from status_page import overview
from status_page.pages import charts
from status_page.pages.rendering import REFRESH_SECONDS, Pages, link, redirect, style
from status_page.pages.verdicts import verdicts
from status_page.site import Site
from status_page.transactions import lists
from status_page.transactions.index import Index, Parked, place_in
from status_page.transactions.schema import PARKED, STATUS
from status_page.transactions.transaction_story import Told
from status_page.words import reason_of

_GROUPS = 100
"""On one page."""
_NAMES = 200
"""Suggested for a filter."""
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#1f5f8b"/>'
    '<path d="M4 8.5l2.6 2.6L12 5.4" fill="none" stroke="#fff" stroke-width="2" stroke-linecap="round" '
    'stroke-linejoin="round"/></svg>'
)
AGES = ("1min", "5min", "15min", "1h", "6h", "1d")


class Showing:
    """Answers ``GET``; each method runs in a thread of its own."""

    def __init__(self, site: Site, pages: Pages) -> None:
        self._site = site
        self._pages = pages

    def overview(self, request: Request) -> Response:
        """Do transactions flow, which are in doubt, is anything parked, is the job behind."""
        facts, index = self._site.facts(), self._site.index
        in_doubt = overview.in_doubt_by_topic(index, facts)
        stuck, more = overview.stuck(index, facts, in_doubt)
        answers = verdicts(facts, lacking=self._site.standing.lacking, unasked=overview.unasked(in_doubt))
        shown = {
            "verdicts": answers,
            "stuck": stuck,
            "more_stuck": more,
            "charts": charts.charts(facts.flow, facts.now_ms),
            "table": charts.table(facts.flow, facts.now_ms),
            "names": charts.NAMES,
        }
        return self._pages.page(request, "overview.html", "Overview", shown, facts=facts, refresh=REFRESH_SECONDS)

    def transactions(self, request: Request) -> Response:
        """Those in doubt."""
        return self._list(request, "transactions.html", "In doubt", STATUS.name)

    def parked(self, request: Request) -> Response:
        """Those that wait for an operator."""
        return self._list(request, "parked.html", "Parked", PARKED.name)

    def transaction(self, request: Request) -> Response:
        """All that is known of one, which is named by its place; a transaction id leads there."""
        named = request.path_params["named"]
        half = place_in(named)
        if half is None:
            return self._called(request, named)
        return self._detail(request, half)

    def story(self, request: Request) -> Response:
        """The same, with all that Kafka has about it."""
        half = place_in(request.path_params["named"])
        if half is None or self._site.story is None:
            return self.nothing(request)
        try:
            return self._detail(request, half, told=list(self._site.story(half)))
        except CheckbackError as error:
            return self._detail(request, half, told_not=str(error))

    def groups(self, request: Request) -> Response:
        """Producer groups, with their endpoints."""
        facts = self._site.facts()
        text = request.query_params.get("group", "").strip()
        by_topic = overview.in_doubt_by_topic(self._site.index, facts)
        in_doubt = overview.by_group(by_topic)
        wanted = [group for group in overview.all_groups(facts, in_doubt) if text in group.group]
        begin = _number(request.query_params.get("from", ""))
        shown = {
            "groups": wanted[begin : begin + _GROUPS],
            "total": len(wanted),
            "begin": begin,
            "step": _GROUPS,
            "text": text,
            "in_doubt": in_doubt,
            "unasked": overview.unasked(by_topic),
        }
        return self._pages.page(request, "groups.html", "Groups", shown, facts=facts, refresh=REFRESH_SECONDS)

    def nothing(self, request: Request) -> Response:
        """There is no such page."""
        return self._pages.page(request, "nothing.html", "No such page", {}, status=404)

    def style(self, _: Request) -> Response:
        """The stylesheet; its URL changes with it."""
        kept = {"cache-control": "private, max-age=86400, immutable"}
        return Response(style()[0], media_type="text/css", headers=kept)

    def icon(self, _: Request) -> Response:
        """What browsers show in the tab."""
        return Response(_ICON, media_type="image/svg+xml", headers={"cache-control": "private, max-age=86400"})

    def _list(self, request: Request, template: str, title: str, of: str) -> Response:
        index, facts, now_ms = self._site.index, self._site.facts(), self._site.now_ms()
        problem = ""
        try:
            what = lists.asked(request.query_params)
        except ValueError as error:
            what, problem = lists.ListQuery(), str(error)
        listed = (lists.in_doubt if of == STATUS.name else lists.parked)(index, what, now_ms)
        by_name = overview.GroupsByName(facts)
        alike: dict[str, list[InDoubt | Parked]] = {}
        for row in listed.rows:
            reason = row.reason if isinstance(row, Parked) else str(reason_of(row, by_name[row.group]))
            alike.setdefault(reason, []).append(row)
        shown = {
            **_names(index, of),
            "what": what,
            "listed": listed,
            "alike": alike,
            "problem": problem,
            "by_name": by_name,
            "ages": AGES,
            "ticked": "ticked" in request.query_params,
        }
        # who ticks boxes does not want them cleared
        refresh = 0 if self._site.session(request) else REFRESH_SECONDS
        status = 400 if problem else 200
        return self._pages.page(request, template, title, shown, status=status, facts=facts, refresh=refresh)

    def _called(self, request: Request, named: str) -> Response:
        """To the transaction with this id when there is just one, else to the list of those whose id begins so."""
        index = self._site.index
        rows: list[InDoubt | Parked] = [*index.in_doubt_called(named), *index.parked_called(named)]
        places = {row.half for row in rows if row.transaction_id == named}
        if len(places) == 1:
            return redirect(request, f"/transactions/{places.pop()}")
        return redirect(request, link("/transactions", {"id": named}))

    def _detail(
        self, request: Request, half: HalfPosition, told: Sequence[Told] | None = None, told_not: str = ""
    ) -> Response:
        """``told``: its story; ``told_not``: why it cannot be told."""
        index, facts = self._site.index, self._site.facts()
        row, parked = index.in_doubt_at(half), index.parked_at(half)
        named = row or next(iter(parked), None)
        shown = {
            "half": half,
            "row": row,
            "parked": parked,
            "group": named and overview.GroupsByName(facts)[named.group],
            "parked_ttl": self._site.settings.transactions.parked_ttl,
            "has_story": self._site.story is not None,
            "told": told,
            "told_not": told_not,
        }
        status = 200 if named or told else 404
        return self._pages.page(
            request, "transaction.html", f"Transaction at {half}", shown, status=status, facts=facts
        )


def _names(index: Index, of: str) -> dict[str, list[str]]:
    tallies = index.tallies(of)
    groups, topics = {one.group for one in tallies}, {one.topic for one in tallies}
    return {"group_names": sorted(groups)[:_NAMES], "topic_names": sorted(topics)[:_NAMES]}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
