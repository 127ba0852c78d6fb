"""A page of one of the lists, as it is asked for in a URL: by the pages and by the API alike."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from checkback.operations.in_doubt import InDoubt
from conf.durations import parse
from status_page.transactions.index import COUNTED, MOST_ROWS, Cursor, Index, Parked, RowFilter, Total, cursor_of
from status_page.transactions.schema import PARKED, STATUS

PAGE_ROWS = 30
"""On a phone each row is a card: 100 of them were thirty thousand pixels."""
_TEXT_CHARACTERS = 300


class ListQuery(NamedTuple):
    """What a URL's query asks for."""

    group: str = ""
    topic: str = ""
    older_than: str = ""
    """A duration, ``15min``."""
    text: str = ""
    """Beginning of a transaction id, or a place: then the others say nothing."""
    limit: int = PAGE_ROWS
    after: Cursor | None = None
    before: Cursor | None = None

    @property
    def filters(self) -> dict[str, str]:
        """What is filtered by, as the URL says it: without the place in the list."""
        given = {"id": self.text, "group": self.group, "topic": self.topic, "older_than": self.older_than}
        return {name: value for name, value in given.items() if value}


class ListPage(NamedTuple):
    """Rows, and how to go on."""

    rows: tuple[InDoubt | Parked, ...]
    total: Total
    previous: str = ""
    """What to ask for as ``before``; empty: these are the first."""
    following: str = ""
    """What to ask for as ``after``; empty: these are the last."""
    cut: bool = False
    """Whether more begin with the text than are shown: type more of it."""


def asked(query: Mapping[str, str]) -> ListQuery:
    """Read a query.

    Raises:
        ValueError: a parameter is wrong; the message is a sentence that says which.
    """
    texts = {name: query.get(name, "").strip()[:_TEXT_CHARACTERS] for name in ("group", "topic", "older_than", "id")}
    older_than = texts["older_than"]
    if older_than:
        _duration(older_than)
    limit = query.get("limit", str(PAGE_ROWS))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= MOST_ROWS):
        raise ValueError(f"limit must be a number from 1 to {MOST_ROWS}.")
    return ListQuery(
        group=texts["group"],
        topic=texts["topic"],
        older_than=older_than,
        text=texts["id"],
        limit=int(limit),
        after=_cursor("after", query.get("after", "")),
        before=_cursor("before", query.get("before", "")),
    )


def in_doubt(index: Index, what: ListQuery, now_ms: int) -> ListPage:
    """A page of the transactions that are in doubt, the oldest first."""
    if what.text:
        return _called(index.in_doubt_called(what.text, what.limit + 1), what)
    wanted = _wanted(what, now_ms)
    rows = index.in_doubt(wanted, what.limit + 1, what.after, what.before)
    return _page(rows, what, index.total(STATUS.name, wanted))


def parked(index: Index, what: ListQuery, now_ms: int) -> ListPage:
    """A page of the parked messages, those first that have waited longest."""
    if what.text:
        return _called(index.parked_called(what.text, what.limit + 1), what)
    wanted = _wanted(what, now_ms)
    rows = index.parked(wanted, what.limit + 1, what.after, what.before)
    return _page(rows, what, index.total(PARKED.name, wanted))


def said(total: Total) -> str:
    """``12,345``, or ``more than 10,000``."""
    return f"{total.number:,}" if total.exact else f"more than {COUNTED:,}"


def _wanted(what: ListQuery, now_ms: int) -> RowFilter:
    before_ms = now_ms - _duration(what.older_than) if what.older_than else 0
    return RowFilter(what.group, what.topic, max(before_ms, 1) if what.older_than else 0)


def _called(found: Sequence[InDoubt | Parked], what: ListQuery) -> ListPage:
    rows, cut = tuple(found[: what.limit]), len(found) > what.limit
    return ListPage(rows, Total(len(rows), not cut), cut=cut)


def _page(found: Sequence[InDoubt | Parked], what: ListQuery, total: Total) -> ListPage:
    backwards = what.before is not None and what.after is None
    more = len(found) > what.limit
    rows = (found[1:] if backwards else found[:-1]) if more else found
    if not rows:
        return ListPage((), total)
    previous = _cursor_text(cursor_of(rows[0])) if (more if backwards else what.after) else ""
    following = _cursor_text(cursor_of(rows[-1])) if backwards or more else ""
    return ListPage(tuple(rows), total, previous, following)


def _duration(text: str) -> int:
    try:
        return parse(text)
    except ValueError:
        raise ValueError("older_than must be a duration with its unit, as 15min, 1h or 2d.") from None


def _cursor_text(cursor: Cursor) -> str:
    return "-".join(str(part) for part in cursor)


def _cursor(name: str, text: str) -> Cursor | None:
    if not text:
        return None
    parts = text.split("-", 3)
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts[:3]):
        raise ValueError(f"{name} must be what an earlier page gave.")
    return Cursor(int(parts[0]), int(parts[1]), int(parts[2]), parts[3].encode(errors="replace").decode())
