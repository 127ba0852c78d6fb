"""The bytes of a segment's state."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkback.exceptions import StateFormatError
from state import Policy, Segment, segment_from_bytes, segment_to_bytes
from state.codec import VERSION
from state.rows import CLAIM_FIELDS, EARLY_FIELDS, MESSAGE_FIELDS, Fields, Rows, objects
from tests.state.records import Driver, Half, Op
from tests.state.small import POLICY as SMALL
from tests.state.small import opened

POLICY = Policy(segment_size=64)
_BYTES = ("key", "value")


def assert_same(actual: Segment, expected: Segment) -> None:
    assert (actual.first_offset, actual.touched_ms) == (expected.first_offset, expected.touched_ms)
    assert actual.ledger.dtype == np.uint8
    assert actual.ledger.tolist() == expected.ledger.tolist()
    for rows, others, fields in (
        (actual.messages, expected.messages, MESSAGE_FIELDS),
        (actual.early, expected.early, EARLY_FIELDS),
        (actual.claims, expected.claims, CLAIM_FIELDS),
    ):
        assert list(rows) == list(fields)
        for name, kind in fields.items():
            assert rows[name].dtype == np.dtype(kind), name
            assert rows[name].tolist() == others[name].tolist(), name


def full_segment() -> Segment:
    """Two messages open, one of them checked, one decided, one op that waits."""
    driver = Driver(POLICY)
    halves = [Half(offset=at, transaction_id=f"tx-{at}", value=b"v" * 50) for at in range(3)]
    ops = Op(half_offset=2, transaction_id="tx-2"), Op(half_offset=9, transaction_id="tx-9", value=b"remark")
    driver.step(1, *halves, *ops)
    driver.step(POLICY.transaction_timeout_ms + 1)
    driver.step(POLICY.transaction_timeout_ms + 2, Op("check_unknown", half_offset=1, transaction_id="tx-1"))
    return driver.segment


def test_a_new_segment_comes_back() -> None:
    segment = Segment.new(7, POLICY)
    assert segment.first_offset == 7 * 64
    assert_same(segment_from_bytes(segment_to_bytes(segment)), segment)


def test_a_full_segment_comes_back() -> None:
    segment = full_segment()
    assert (segment.messages.count, segment.early.count) == (2, 1)
    assert_same(segment_from_bytes(segment_to_bytes(segment)), segment)


def _column(draw: st.DrawFn, name: str, kind: type, count: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    if kind is object:
        texts: st.SearchStrategy[bytes | str] = st.binary(max_size=8) if name in _BYTES else st.text(max_size=8)
        return objects(draw(st.lists(st.none() | texts, min_size=count, max_size=count)))
    bounds = np.iinfo(kind)
    numbers = st.sampled_from([int(bounds.min), 0, 1, int(bounds.max)])
    return np.array(draw(st.lists(numbers, min_size=count, max_size=count)), dtype=kind)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Any content a segment's fields can hold, be it valid or not."""

    def rows(fields: Fields) -> Rows:
        count = draw(st.integers(0, 3))
        return Rows({name: _column(draw, name, kind, count) for name, kind in fields.items()})

    return Segment(
        first_offset=draw(st.integers(0, 2**63 - 1)),
        ledger=np.frombuffer(draw(st.binary(min_size=1, max_size=64)), dtype=np.uint8).copy(),
        messages=rows(MESSAGE_FIELDS),
        early=rows(EARLY_FIELDS),
        claims=rows(CLAIM_FIELDS),
        touched_ms=draw(st.integers(0, 2**63 - 1)),
    )


@settings(max_examples=50, database=None)
@given(segments())
def test_any_segment_comes_back(segment: Segment) -> None:
    assert_same(segment_from_bytes(segment_to_bytes(segment)), segment)


@pytest.mark.parametrize("text", ["", "ä", "事务", "\U0001f4e8", "\x00", None])
def test_text_comes_back(text: str | None) -> None:
    driver = opened(POLICY, Half(transaction_id=text or "", headers=text))
    driver.step(1, Op(half_offset=5, transaction_id=text or "", headers=text))
    segment = segment_from_bytes(segment_to_bytes(driver.segment))
    assert segment.messages["headers"].tolist() == [text]
    assert segment.early["transaction_id"].tolist() == [text or ""]


def test_what_comes_back_can_be_changed() -> None:
    segment = segment_from_bytes(segment_to_bytes(full_segment()))
    columns = [segment.ledger, *segment.messages.values(), *segment.early.values(), *segment.claims.values()]
    assert all(column.flags.writeable for column in columns)


def test_the_same_segment_gives_the_same_bytes() -> None:
    assert segment_to_bytes(full_segment()) == segment_to_bytes(full_segment())


def test_the_version_is_the_first_byte() -> None:
    assert segment_to_bytes(full_segment())[0] == VERSION


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1, 255])
def test_another_version_is_refused_by_name(version: int) -> None:
    with pytest.raises(StateFormatError, match=rf"version {version}\b.*reads version {VERSION}\b"):
        segment_from_bytes(bytes([version]) + segment_to_bytes(full_segment())[1:])


def test_empty_bytes_are_refused() -> None:
    with pytest.raises(StateFormatError):
        segment_from_bytes(b"")


@settings(max_examples=200, database=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(StateFormatError):
        segment_from_bytes(bytes([VERSION]) + garbage)


@pytest.mark.parametrize("without", ["nothing", "open", "early"])
def test_a_cut_anywhere_is_refused(without: str) -> None:
    segment = full_segment()
    if without == "open":
        segment = replace(segment, messages=Rows.empty(MESSAGE_FIELDS))
    if without == "early":
        segment = replace(segment, early=Rows.empty(EARLY_FIELDS))
    content = segment_to_bytes(segment)
    for length in range(len(content)):
        with pytest.raises(StateFormatError):
            segment_from_bytes(content[:length])


def test_bytes_behind_the_end_are_refused() -> None:
    with pytest.raises(StateFormatError):
        segment_from_bytes(segment_to_bytes(full_segment()) + b"\x00")


def test_a_changed_byte_anywhere_is_refused() -> None:
    content = segment_to_bytes(full_segment())
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x81
        with pytest.raises(StateFormatError):
            segment_from_bytes(bytes(changed))


def test_an_undeliverable_message_comes_back() -> None:
    driver = Driver(SMALL, stored=True)
    driver.step(1, Half(says="park"), Op("redeliver", half_offset=5, source="operator"))
    said = driver.step(2, Op("redeliver", op_offset=1, source="operator"))
    assert len(said.delivered) == 1
    assert len(driver.step(3, Half(offset=5, says="park")).delivered) == 1
