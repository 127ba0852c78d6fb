"""What columns vouch for is what the rules say of each record, whatever its headers hold."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from checkback.wire import protocol
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action, Source, Topics
from state.rows import NO_LANE, UNSETTLED_LANE
from streaming.batch.headers import Headers, packed_headers
from streaming.stateful.broken import WrittenHalf, WrittenOp, read_half, read_op
from streaming.stateful.by_column import vouched_halves, vouched_ops

OWN = frozenset(Topics().all())
GROUPS = st.sampled_from([b"shop", b"", None, b"\xff", "é".encode(), b"g" * 255, b"g" * 256])
IDS = st.one_of(
    st.just(b"tx-1"),
    st.binary(max_size=4),
    st.sampled_from([None, b"i" * 64, b"i" * 65, b"i" * 74, "é".encode() * 33, b"a\0b"]),
)
TOPICS = st.one_of(
    st.just(b"orders"),
    st.binary(max_size=3),
    st.sampled_from([None, b"t" * 249, b"t" * 250, b".", b"..", b"__x", b"cb.half", b"orders\n"]),
)
LANES = st.sampled_from([None, None, b"0f" * 16, b"", b"0F" * 16, b"0f" * 16 + b"\n", b"\xff", b"checkback-job-0"])
HalfRecord = tuple[bytes | None, bytes | None, bytes | None, bytes | None, Headers]
ODD_NAMES = ["cb-id", "cb-new", "cb-", "xcb-id", "\0", "\ufffd", "a\\u0000", '"key":"cb-', "cb-held", "cb-partition"]
NAMES = st.one_of(st.text(st.characters(codec="utf-8"), max_size=6), st.sampled_from([*ODD_NAMES, "cb-lane"]))
FOLLOWING = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=4))), max_size=3)
WORDS = st.sampled_from([*(one.encode() for one in (*Action, *Source)), None, b"", b"\xff", b"Commit"])


def _batch(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    kinds = {"headers": pa.string()}
    arrays = [pa.array(values, kinds.get(name, pa.binary())) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@given(st.lists(st.tuples(IDS, GROUPS, TOPICS, LANES, FOLLOWING), min_size=1, max_size=5), st.integers(0, 2))
def test_half_messages(records: list[HalfRecord], skipped: int) -> None:
    names = ("transaction_id", "group", "topic", "source", "headers")
    packed = [(*record[:4], packed_headers(record[4]) if record[4] else None) for record in records]
    columns = dict(zip(names, map(list, zip(*packed, strict=True)), strict=True))
    rows, records = _batch(columns).slice(skipped), records[skipped:]
    vouched = vouched_halves(rows, OWN)
    for at, (transaction_id, group, topic, lane, following) in enumerate(records):
        ours: Headers = [(protocol.ID, transaction_id), (protocol.GROUP, group), (protocol.TOPIC, topic)]
        ours += [] if lane is None else [(protocol.LANE, lane)]
        said = read_half([*ours, *following], OWN)
        if vouched.good[at]:
            assert isinstance(said, WrittenHalf), said
            assert [vouched.columns[name][at] for name in names[:3]] == list(said[:3])
            assert (set(said.options), said.held, said.event) == ({-1}, False, 0)
            if "lane" in vouched.columns:
                assert vouched.columns["lane_name"][at] == said.lane
                assert vouched.columns["lane"][at] == (NO_LANE if lane is None else UNSETTLED_LANE)
            else:
                assert said.lane is None
        elif isinstance(said, WrittenHalf):
            plain = all(name.isascii() and '"' not in name and name.isprintable() for name, _ in following)
            ours_too = any(name.startswith("cb-") for name, _ in following)
            escaped = "\\" in "".join(name for name, _ in following)
            assert ours_too or not plain or escaped, "lawful, and not vouched for"


@given(
    st.lists(st.tuples(IDS, GROUPS, WORDS, WORDS), min_size=1, max_size=5),
    st.integers(0, 2),
    st.sampled_from([None, *LaneFact]),
)
def test_ops(records: list[tuple[bytes | None, ...]], skipped: int, fact: LaneFact | None) -> None:
    names = ("transaction_id", "group", "topic", "source")
    rows = _batch(dict(zip(names, map(list, zip(*records, strict=True)), strict=True))).slice(skipped)
    vouched = vouched_ops(rows, fact)
    for at, record in enumerate(records[skipped:]):
        place = (protocol.HALF, b"1:70")
        keys = (protocol.ID, protocol.GROUP, protocol.ACTION, protocol.SOURCE)
        said = read_op([place, *zip(keys, record, strict=True), *([fact.header] if fact else [])], 1)
        if vouched.good[at]:
            assert isinstance(said, WrittenOp), said
            columns = [vouched.columns[name][at] for name in WrittenOp._fields]
            assert columns == list(said)
        else:
            assert isinstance(said, str) or record[2] == b"redeliver", "lawful, and not vouched for"


def test_columns_with_nothing_but_good_ones_are_vouched_for_whole() -> None:
    headers = packed_headers([("trace", b"\xef\xbf\xbd\\"), ("b", None)])
    named = {"transaction_id": [b"a", b"b"], "group": [b"g"] * 2, "topic": [b"t"] * 2}
    rows = _batch({**named, "source": [None, b"0f" * 16], "headers": [headers, None]})
    assert np.all(vouched_halves(rows, OWN).good)


def test_thousands_of_different_words_are_looked_at_once_each() -> None:
    """A table of all pairs of them, 200 MB of it here, held up everybody."""
    count = 5_000
    words = [b"%d" % number for number in range(count)]
    rows = _batch({"transaction_id": words, "group": words, "topic": words, "source": words})
    tracemalloc.start()
    good = vouched_ops(rows).good
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not good.any()
    assert most < 1_000 * count
