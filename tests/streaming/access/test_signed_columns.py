"""Signed records by columns are judged as one by one, whatever they are."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from access.policy import policy_of
from access.verifying import Verifier, Writer
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import ACTION, GROUP, HALF, ID, LANE, SIGNATURE, SOURCE, TOPIC
from checkback.wire.signed_records import (
    MOST_PLAIN_BYTES,
    PLAIN,
    WINDOW_MS,
    SigningKey,
    Written,
    place_of,
    signature_header,
    signed_message,
    spelled,
    spelled_content,
)
from streaming.access import signatures
from streaming.access.signatures import RowRead, Signatures
from streaming.access.signed_columns import SignedColumns, surely_signed
from streaming.batch.headers import packed_headers

NOW_MS = 1_764_000_000_000
PARTITION = 3
KEYS = {name: SigningKey(name, f"{name:x<40}") for name in ("shop-1", "shop-2", "till-1", "job-1")}
POLICY = policy_of(
    """
[accounts.shop]
groups = ["shop"]
other_topics = "allow"
keys = ["shop-1", "shop-2"]
[accounts.till]
groups = ["till"]
other_topics = "allow"
keys = ["till-1"]
[accounts.open]
groups = ["open"]
other_topics = "allow"
[accounts.programs]
keys = ["job-1"]
roles = ["job", "checks", "operator"]
"""
)
TYPES = {
    **dict.fromkeys(("source", "signature", "key", "value", "transaction_id", "group", "topic"), pa.binary()),
    "time_ms": pa.int64(),
    "left_out": pa.int32(),
    "headers": pa.string(),
    "offset": pa.int64(),
}
BYTES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"x" * size for size in (4_050, 4_096, 5_000)]))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=2)
SIGNATURES = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.sampled_from([b"shop-1 1 ", b"shop-1 1764000000000 " + b"=" * 24, b"\xff 1 c", b"  ", b"shop-1 \xd9\xa1 c"]),
)
CHANGES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"signature": SIGNATURES}),
    st.fixed_dictionaries({"changed_at": st.integers(1, 30)}),
    st.fixed_dictionaries({"value": BYTES}),
    st.fixed_dictionaries({"source": st.sampled_from([b"check", b"operator"])}),
    st.fixed_dictionaries({"left_out": st.integers(0, 9)}),
    st.fixed_dictionaries({"time_ms": st.sampled_from([NOW_MS + gap for gap in (WINDOW_MS, WINDOW_MS + 1)])}),
    st.fixed_dictionaries({"group": st.sampled_from([b"till", b"shop", b"open"])}),
    st.fixed_dictionaries({"transaction_id": st.binary(min_size=1, max_size=70)}),
    st.fixed_dictionaries({"offset": st.integers(0, 2**62)}),
    st.fixed_dictionaries({"others": HEADERS}),
)


@pytest.fixture(scope="module", autouse=True)
def few_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signatures, "_AT_ONCE", 3)
        yield


def ours(row: dict[str, Any], fact: LaneFact | None, *, op: bool) -> Written:
    """The headers of ours that a row stands for."""
    named = [(ID, row["transaction_id"]), (GROUP, row["group"])]
    if not op:
        lane = [(LANE, row["source"])] if row["source"] is not None else []
        return [*named, (TOPIC, row["topic"]), *lane]
    half = b"%d:%d" % (PARTITION, row["offset"])
    facts = [fact.header] if fact else []
    return [*named, (HALF, half), (ACTION, row["topic"]), (SOURCE, row["source"]), *facts]


@st.composite
def rows(draw: st.DrawFn, fact: LaneFact | None, *, op: bool) -> dict[str, Any]:
    """A row; the application's headers are under *others*."""
    headers = draw(HEADERS)
    row: dict[str, Any] = {
        "source": draw(st.sampled_from([b"producer", b"check"] if op else [None, b"0" * 32])),
        "time_ms": NOW_MS + draw(st.sampled_from([-WINDOW_MS, 0, 5])),
        "left_out": -1,
        "key": draw(BYTES),
        "value": draw(BYTES),
        "others": headers,
        "transaction_id": draw(st.binary(min_size=1, max_size=40)),
        "group": draw(st.sampled_from([b"shop", b"till", b"open"])),
        "offset": draw(st.integers(0, 10**6)),
        "topic": b"commit" if op else b"orders",
    }
    key = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    place = place_of("cb.op" if op else "cb.half", PARTITION)
    content = (row["key"], row["value"])
    if draw(st.booleans()):
        row["signature"] = signature_header(key, place, NOW_MS, content, [*ours(row, fact, op=op), *headers])[1]
    else:  # whoever has a key can sign what is too large without a hash
        plain, time = PLAIN + spelled_content(*content, spelled(headers)), b"%d" % NOW_MS
        code = key.code(signed_message(place, key.id.encode(), time, plain, spelled(ours(row, fact, op=op))))
        row["signature"] = b" ".join([key.id.encode(), time, code])
    row |= draw(CHANGES)
    if at := row.pop("changed_at", 0):
        row["signature"] = row["signature"][:-at] + b"A" + row["signature"][len(row["signature"]) - at + 1 :]
    return {**row, "headers": packed_headers(row["others"]) if row["others"] else None}


def judged_alike(made: list[dict[str, Any]], fact: LaneFact | None, *, op: bool) -> None:
    columns = [pa.array([row[name] for row in made], kind) for name, kind in TYPES.items()]
    batch = pa.RecordBatch.from_arrays(columns, list(TYPES))
    judge = Signatures(Verifier(POLICY, KEYS), "cb.op" if op else "cb.half", PARTITION)
    groups = np.array([row["group"].decode() for row in made], dtype=object)
    among = np.arange(len(made)) % 5 != 4
    found = judge.of_ops(batch, groups, among, fact) if op else judge.of_halves(batch, groups, among)
    for row, taken, judged in zip(made, found.tolist(), among.tolist(), strict=True):
        read = RowRead(row["key"], row["value"], row["time_ms"], row["left_out"])
        signature = [] if row["signature"] is None else [(SIGNATURE, row["signature"])]
        written = [*ours(row, fact, op=op), *row["others"], *signature]
        writer = Writer(row["source"].decode()) if op else Writer.PRODUCER
        reason = judge.reason(row["group"].decode(), writer, written, read)
        assert taken == (reason == "" or not judged), reason


@given(st.lists(rows(None, op=False), max_size=8))
def test_half_messages(made: list[dict[str, Any]]) -> None:
    judged_alike(made, None, op=False)


@given(st.data(), st.sampled_from([None, *LaneFact]))
def test_ops(data: st.DataObject, fact: LaneFact | None) -> None:
    judged_alike(data.draw(st.lists(rows(fact, op=True), max_size=8)), fact, op=True)


def test_what_is_as_it_was_signed_is_surely_taken() -> None:
    place, key = place_of("cb.half", 0), KEYS["shop-1"]
    sizes = [1, MOST_PLAIN_BYTES - 20, MOST_PLAIN_BYTES, 1]
    signed = [signature_header(key, place, NOW_MS, (b"k", b"v" * size), [])[1] for size in sizes]
    records = SignedColumns(
        np.array(["shop"] * 4, dtype=object),
        pa.nulls(4, pa.binary()),
        pa.array(signed, pa.binary()),
        NOW_MS + np.array([0, WINDOW_MS, 0, WINDOW_MS + 1]),
        (b"",),
        pa.array([spelled_content(b"k", b"v" * size, b"") for size in sizes], pa.binary()),
    )
    fits = [True, True, False, False]
    assert surely_signed(records, place, lambda _group, _source: {b"shop-1": key}).tolist() == fits
    assert not surely_signed(records, place, lambda _group, _source: {b"shop-1": KEYS["shop-2"]}).any()
    assert not surely_signed(records, place, lambda _group, _source: {}).any()


WIDE = 900_000
MEASURED: list[pa.MemoryPool] = []
"""Each knows the peak of its allocations; they have to outlive their buffers."""


@pytest.mark.parametrize(
    "wide", [b" " * WIDE, b"shop-1 %s c" % (b"1" * WIDE), b"%s 1 c" % (b"k" * WIDE), b"shop-1 1 " + b"c" * WIDE]
)
def test_a_wide_signature_is_refused_before_it_is_split(wide: bytes) -> None:
    op = dict.fromkeys(TYPES) | {"source": b"producer", "time_ms": NOW_MS, "left_out": -1, "signature": wide}
    op |= {"transaction_id": b"tx-1", "group": b"shop", "offset": 1, "topic": b"commit"}
    batch = pa.RecordBatch.from_arrays([pa.array([op[name]], kind) for name, kind in TYPES.items()], list(TYPES))
    judge = Signatures(Verifier(POLICY, KEYS), "cb.op", PARTITION)
    pool = pa.default_memory_pool()
    MEASURED.append(pa.proxy_memory_pool(pool))
    pa.set_memory_pool(MEASURED[-1])
    tracemalloc.start()
    try:
        found = judge.of_ops(batch, np.array(["shop"], dtype=object), np.array([True]), None)
        in_python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(pool)
    assert found.tolist() == [False]
    assert (MEASURED[-1].max_memory() or 0) < 3 * WIDE
    assert in_python < 2 * WIDE + 100_000
