"""Names of lanes, what is known of them, and ledgers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.exceptions import ProtocolError
from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact, fact_answered, is_lane, new_lane, of_lane, stating, transactional_id
from checkback.wire.ledger import MAX_LEDGER_BYTES, Ledger
from checkback.wire.protocol import Action, HalfPosition, Source, half_headers, op_headers

PLACES = st.builds(HalfPosition, st.integers(0, 3), st.integers(0, 40) | st.integers(0, 10**15 - 1))


@given(st.sets(PLACES, max_size=60), PLACES)
def test_a_ledger_has_its_places_and_no_others(places: set[HalfPosition], other: HalfPosition) -> None:
    ledger = Ledger(places)
    assert all(place in ledger for place in places)
    assert (other in ledger) == (other in places)
    assert Ledger.parse(ledger.metadata) == Ledger.parse(str(ledger)) == ledger
    assert bool(ledger) == bool(places)


def test_a_ledger_joins_what_follows_each_other() -> None:
    places = [HalfPosition(4, 55), *(HalfPosition(3, offset) for offset in (83, 81, 82, 90))]
    assert str(Ledger(places)) == "3:81-83,3:90,4:55"
    assert str(Ledger()) == "-"


@pytest.mark.parametrize(
    "text",
    [
        *("", "\0", "--", "-,3:81", "3:81,-", "x", "3", "3:", ":3", "3:81-", "3:83-81", "3:81-81", "3:81,"),
        *(",3:81", "3:081", "03:81", "-3:81", "3:81 "),
        *("4:55,3:81", "3:90,3:81", "3:81-83,3:83", "3:81-83,3:84", "3:81,3:81", "\u0663:81", "3:9999999999999999"),
        ",".join(f"3:{offset}" for offset in range(0, 4_000, 2)),
    ],
)
def test_what_is_no_ledger_of_ours_says_nothing(text: str) -> None:
    with pytest.raises(ProtocolError, match="ledger"):
        Ledger.parse(text)


def test_a_ledger_fits_or_does_not() -> None:
    most = next(n for n in range(1, 2_000) if not Ledger(HalfPosition(1, 2 * offset) for offset in range(n + 1)).fits)
    longest = Ledger(HalfPosition(1, 2 * offset) for offset in range(most))
    assert longest.fits
    assert MAX_LEDGER_BYTES - 8 < len(longest.metadata) <= MAX_LEDGER_BYTES
    assert Ledger.parse(longest.metadata) == longest
    assert Ledger(HalfPosition(1, offset) for offset in range(100_000)).fits


def test_a_lane_is_one_of_its_group() -> None:
    lane = new_lane()
    assert is_lane(lane)
    assert lane != new_lane()
    assert transactional_id("orders", lane) == f"checkback-lane:orders:{lane}"
    for wrong in ("", "checkback-claim", lane.upper() + "A", lane[:-1], lane + "0", f"{lane}\n"):
        assert not is_lane(wrong)
        with pytest.raises(ProtocolError, match="cb-lane"):
            transactional_id("orders", wrong)


def test_headers_say_it_where_the_job_looks_for_it() -> None:
    lane = new_lane()
    half = of_lane(half_headers("a1", "orders", "paid", [("x", b"1")], partition=3), lane)
    assert [name for name, _ in half] == ["cb-id", "cb-group", "cb-topic", "cb-lane", "cb-partition", "x"]
    op = op_headers("a1", "orders", HalfPosition(3, 81), Action.COMMIT, Source.PRODUCER)
    assert stating(op, None) == op
    assert stating(op, LaneFact.DELIVERED) == [*op, ("cb-delivered", b"1")]
    assert stating(op, LaneFact.SETTLED) == [*op, ("cb-settled", b"1")]


def test_an_answer_may_say_it() -> None:
    assert fact_answered({"state": "commit", "lane": "delivered"}) is LaneFact.DELIVERED
    assert fact_answered({"state": "rollback", "lane": "settled"}) is LaneFact.SETTLED
    for nothing in ({}, {"lane": None}, {"lane": 1}, {"lane": ["delivered"]}, {"lane": "open"}):
        assert fact_answered(nothing) is None


def test_a_check_names_the_lane() -> None:
    asked = CheckRequest("a1", "orders", "paid", None, b"v", [], HalfPosition(3, 81), 1, 15, 1_000, lane=new_lane())
    _, value, headers = asked.to_record()
    assert CheckRequest.from_record(value, headers) == asked == CheckRequest.from_json(asked.to_json())
    with pytest.raises(ProtocolError, match="cb-lane"):
        CheckRequest.from_record(value, [(name, b"x" if name == "cb-lane" else told) for name, told in headers])
