"""The index against a plain model of the same lists; and what a page costs."""

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkback.operations.in_doubt import InDoubt
from checkback.operations.parked import ParkedMessage
from checkback.wire.protocol import HalfPosition
from status_page.transactions import lists
from status_page.transactions.index import COUNTED, MOST_ROWS, Cursor, Index, RowFilter, Total, cursor_of
from status_page.transactions.schema import PARKED, STATUS
from tests.status_page.browser import NOW_MS, doubtful, given_up

PLACES = st.builds(HalfPosition, st.integers(0, 1), st.integers(0, 5))
NAMES = st.sampled_from(["a", "ab", "b"])
ROWS = st.builds(
    InDoubt,
    *(NAMES, NAMES, NAMES, PLACES, st.integers(1, 3), st.just(3), st.integers(0, 4), st.just(9), NAMES, st.just(9)),
    *(st.integers(0, 1), st.integers(0, 9), NAMES),
)
MESSAGES = st.builds(
    ParkedMessage,
    *(NAMES, NAMES, NAMES, PLACES, st.sampled_from(["why", "committed, but not deliverable to x"])),
    *(st.just(None), st.binary(max_size=3), st.integers(0, 4), st.booleans()),
)
WANTED = st.builds(RowFilter, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "a", "b"]), st.integers(0, 4))


def chosen(rows: list[Any], wanted: RowFilter, since: str) -> list[Any]:
    found = [
        row
        for row in rows
        if wanted.group in {"", row.group}
        and wanted.topic in {"", row.topic}
        and (not wanted.before_ms or getattr(row, since) < wanted.before_ms)
    ]
    return sorted(found, key=lambda row: (getattr(row, since), *row.half, row.transaction_id))


@settings(max_examples=60)
@given(st.lists(st.tuples(PLACES, st.none() | ROWS)), WANTED, st.integers(1, 4))
def test_it_is_the_plain_list(
    records: list[tuple[HalfPosition, InDoubt | None]], wanted: RowFilter, limit: int
) -> None:
    index, model = Index(), dict[HalfPosition, InDoubt]()
    for half, row in records:
        index.take_status([(half, row and row._replace(half=half))])
        if row is None:
            model.pop(half, None)
        else:
            model[half] = row._replace(half=half)
    rows = chosen(list(model.values()), wanted, "ingested_ms")
    assert index.in_doubt(wanted, 100) == rows
    assert index.total(STATUS.name, wanted) == Total(len(rows))
    assert pages(index, wanted, limit) == rows
    assert backwards(index, wanted, limit) == rows
    assert {(t.group, t.topic, t.kind, t.number) for t in index.tallies(STATUS.name)} == tallied(list(model.values()))
    for row in rows:
        assert index.in_doubt_at(row.half) == row
        assert row in index.in_doubt_called(row.transaction_id)
    index.close()


def pages(index: Index, wanted: RowFilter, limit: int) -> list[InDoubt]:
    """The whole list, page by page."""
    found, after = list[InDoubt](), None
    while rows := index.in_doubt(wanted, limit, after):
        found += rows
        after = cursor_of(rows[-1])
    return found


def backwards(index: Index, wanted: RowFilter, limit: int) -> list[InDoubt]:
    found, before = list[InDoubt](), Cursor(10, 10, 10, "")
    while rows := index.in_doubt(wanted, limit, None, before):
        found = [*rows, *found]
        before = cursor_of(rows[0])
    return found


def tallied(rows: list[InDoubt]) -> set[tuple[str, str, str, int]]:
    kinds = [(row.group, row.topic, row.last_answer) for row in rows]
    return {(*kind, kinds.count(kind)) for kind in kinds}


@settings(max_examples=40)
@given(st.lists(st.tuples(MESSAGES, st.booleans())), WANTED)
def test_so_is_the_list_of_parked_messages(records: list[tuple[ParkedMessage, bool]], wanted: RowFilter) -> None:
    index, model = Index(), dict[tuple[HalfPosition, str], ParkedMessage]()
    for message, ended in records:
        place = (message.half, message.transaction_id)
        index.take_parked([(*place, None if ended else message)])
        model.pop(place, None)
        if not ended:
            model[place] = message
    rows = chosen(list(model.values()), wanted, "time_ms")
    found = index.parked(wanted)
    assert [(one.half, one.transaction_id, one.undecided, one.kept) for one in found] == [
        (one.half, one.transaction_id, one.undecided, one.kept or one.undecided) for one in rows
    ]
    assert [one.value_bytes for one in found] == [len(one.value or b"") for one in rows]
    assert index.total(PARKED.name, wanted).number == len(rows)
    index.close()


def test_several_messages_of_one_transaction_are_parked_at_one_place() -> None:
    index = Index()
    index.take_parked((HalfPosition(1, 1), name, given_up(1, transaction_id=name)) for name in ("tx#1", "tx#2"))
    index.take_parked([(HalfPosition(1, 1), "tx#1", None)])
    assert [one.transaction_id for one in index.parked_at(HalfPosition(1, 1))] == ["tx#2"]


@pytest.mark.parametrize(
    "row",
    [
        doubtful(1, transaction_id="x" * 75),
        doubtful(1, transaction_id="\ud800"),
        doubtful(1, group="g" * 256),
        doubtful(1, topic="t" * 250),
        doubtful(1, attempt=-1),
        doubtful(1, ingested_ms=2**63),
        doubtful(1, next_check_ms=10**30),
        doubtful(1, last_answer="a" * 75),
    ],
)
def test_what_the_job_cannot_have_written_is_passed_over(row: InDoubt) -> None:
    index = Index()
    index.take_status([(row.half, row), (HalfPosition(0, 10**19), doubtful()), (HalfPosition(0, 2), doubtful(2))])
    assert [one.half for one in index.in_doubt()] == [HalfPosition(2, 2)]
    assert index.in_doubt_at(HalfPosition(10**19, 0)) is None
    assert index.in_doubt_called("\ud800") == []


def test_a_page_costs_the_rows_that_it_shows() -> None:
    """However many there are: each question reads one page more or less, and there are as many questions."""
    costs = []
    for number in (300, 6_000):
        index = Index()
        index.take_status((row.half, row) for row in map(doubtful, range(number)))
        before = index.reads
        lists.in_doubt(index, lists.asked({"group": "orders", "topic": "shop.orders", "older_than": "1ms"}), NOW_MS)
        lists.in_doubt(index, lists.asked({"after": f"{NOW_MS - 60_000 + 150}-2-150-tx-150"}), NOW_MS)
        lists.in_doubt(index, lists.asked({"id": "tx-"}), NOW_MS)
        index.in_doubt_at(HalfPosition(1, 5))
        costs.append(index.reads - before)
    assert costs[0] == costs[1] < 350


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"group": "orders"},
        {"topic": "shop.orders"},
        {"group": "orders", "topic": "shop.orders"},
        {"older_than": "1s"},
    ],
)
def test_no_list_is_sorted_and_none_is_searched_through(query: dict[str, str]) -> None:
    index = Index()
    asked: list[str] = []
    assert index._connection is not None
    index._connection.set_trace_callback(asked.append)
    for cursor in ({}, {"after": "5-0-0-x"}, {"before": "5-0-0-x"}):
        lists.in_doubt(index, lists.asked({**query, **cursor}), NOW_MS)
        lists.parked(index, lists.asked({**query, **cursor}), NOW_MS)
    index._connection.set_trace_callback(None)
    plans = [step[3] for one in asked for step in index._connection.execute(f"EXPLAIN QUERY PLAN {one}")]
    assert not [plan for plan in plans if "TEMP B-TREE" in plan], plans
    # in the order of an index, or, where a group or topic is wanted, to where that begins in one
    begins = "SEARCH" if query.keys() & {"group", "topic"} else ("SEARCH", "SCAN status USING", "SCAN parked USING")
    assert not [plan for plan in plans if not plan.startswith(begins) and "subquery" not in plan.lower()], plans


def test_what_would_take_long_is_given_up() -> None:
    index = Index()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        index._read("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", ())


def test_a_total_is_counted_up_to_a_limit() -> None:
    index = Index()
    number = COUNTED + 5
    index.take_status((row.half, row) for row in map(doubtful, range(number)))
    assert index.total(STATUS.name) == Total(number)
    assert index.total(STATUS.name, RowFilter(before_ms=NOW_MS)) == Total(COUNTED, exact=False)
    assert lists.said(index.total(STATUS.name, RowFilter(before_ms=NOW_MS))) == "more than 10,000"


def test_pages_lead_to_one_another() -> None:
    index = Index()
    index.take_status((row.half, row) for row in map(doubtful, range(5)))
    first = lists.in_doubt(index, lists.asked({"limit": "2"}), NOW_MS)
    second = lists.in_doubt(index, lists.asked({"limit": "2", "after": first.following}), NOW_MS)
    last = lists.in_doubt(index, lists.asked({"limit": "2", "after": second.following}), NOW_MS)
    back = lists.in_doubt(index, lists.asked({"limit": "2", "before": last.previous}), NOW_MS)
    assert [[row.transaction_id for row in page.rows] for page in (first, second, last, back)] == [
        ["tx-0", "tx-1"],
        ["tx-2", "tx-3"],
        ["tx-4"],
        ["tx-2", "tx-3"],
    ]
    assert (first.previous, last.following) == ("", "")
    assert back.previous
    assert back.following
    start = lists.in_doubt(index, lists.asked({"limit": "2", "before": back.previous}), NOW_MS)
    assert [row.transaction_id for row in start.rows] == ["tx-0", "tx-1"]
    assert start.previous == ""


def test_a_search_finds_ids_that_begin_so_and_places() -> None:
    index = Index()
    rows = [doubtful(1, transaction_id="pay-1"), doubtful(2, transaction_id="pay-2"), doubtful(3, transaction_id="3:3")]
    index.take_status((row.half, row) for row in rows)
    assert [row.transaction_id for row in index.in_doubt_called("pay")] == ["pay-1", "pay-2"]
    assert [row.transaction_id for row in index.in_doubt_called("1:1")] == ["pay-1"]
    assert [row.transaction_id for row in index.in_doubt_called("3:3")] == ["3:3"]
    assert lists.in_doubt(index, lists.asked({"id": "pay", "limit": "1"}), NOW_MS).cut


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"older_than": "5"}, "older_than must be a duration"),
        ({"older_than": "9" * 99}, "older_than must be a duration"),
        ({"limit": "0"}, "limit must be a number from 1"),
        ({"limit": "000000500999"}, "limit must be a number from 1"),
        ({"limit": str(MOST_ROWS + 1)}, "limit must be"),
        ({"limit": "²"}, "limit must be"),
        ({"after": "1-2-3"}, "after must be what an earlier page gave"),
        ({"before": "a-b-c-d"}, "before must be"),
        ({"before": f"{'9' * 20}-0-0-x"}, "before must be"),
    ],
)
def test_a_wrong_query_is_told_so(query: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        lists.asked(query)


def test_the_longest_page_knows_whether_another_follows() -> None:
    index = Index()
    index.take_status((row.half, row) for row in map(doubtful, range(MOST_ROWS + 1)))
    page = lists.in_doubt(index, lists.asked({"limit": str(MOST_ROWS)}), NOW_MS)
    assert len(page.rows) == MOST_ROWS
    assert page.following


def test_a_closed_index_is_empty_and_may_be_opened_again() -> None:
    index = Index()
    index.take_status([(HalfPosition(0, 1), doubtful(1))])
    index.close()
    index.take_status([(HalfPosition(0, 2), doubtful(2))])
    assert (index.in_doubt(), index.total(STATUS.name), index.total(STATUS.name, RowFilter(before_ms=5))) == (
        [],
        Total(0),
        Total(0),
    )
    index.clear()
    assert index.in_doubt() == []
