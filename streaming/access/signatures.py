"""In a task: whether decoded records are signed by who may have written them."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from access.signers import Writer
from access.verifying import SignedRecord, Verifier, surely_fits
from checkback.wire.delivered import LaneFact
from checkback.wire.protocol import ACTION, GROUP, HALF, ID, LANE, SIGNATURE, SOURCE, TOPIC, Source
from checkback.wire.signed_records import Written, parted, place_of, spelled
from state.rows import Column
from streaming.batch.headers import unpack_headers

_COLUMNS = ("transaction_id", "group", "offset", "topic", "source", "signature", "time_ms", "left_out", "key", "value")
_WRITERS = {one.value.encode(): Writer(one.value) for one in Source}
_MOST_ENDS = 4_096
_Ours = Callable[[bytes, bytes, int, bytes, bytes | None], bytes]


class RowRead(NamedTuple):
    """What a judgement needs of a decoded record beside its headers."""

    key: bytes | None
    value: bytes | None
    time_ms: int
    """Kafka's."""
    left_out: int
    """Bytes that are not here; -1: all is."""


class Signatures:
    """Of the records of one partition of a topic; those of groups without keys may all be taken."""

    def __init__(self, verifier: Verifier, topic: str, partition: int) -> None:
        self._verifier = verifier
        self._place = place_of(topic, partition)
        self._partition = partition

    def of_halves(self, rows: pa.RecordBatch, groups: Column, among: Column) -> Column:
        """bool[n]: which half messages in our SDK's order may be taken.

        ``groups``: object[n], as text; ``among``: bool[n], those that keep the protocol, of which no others are judged.
        """

        def ours(transaction_id: bytes, group: bytes, _: int, topic: bytes, lane: bytes | None) -> bytes:
            return _named(ID, transaction_id) + _end_of_half(group, topic, lane)

        return self._fit(rows, groups, among, ours, lambda _: Writer.PRODUCER)

    def of_ops(self, rows: pa.RecordBatch, groups: Column, among: Column, fact: LaneFact | None) -> Column:
        """bool[n]: likewise of ops that all say this of a lane."""

        def ours(transaction_id: bytes, group: bytes, offset: int, action: bytes, source: bytes | None) -> bytes:
            half = b"%d:%d" % (self._partition, offset)
            begins = _named(ID, transaction_id) + _named(GROUP, group) + _named(HALF, half)
            return begins + _end_of_op(action, source, fact)

        return self._fit(rows, groups, among, ours, lambda source: _WRITERS[source or b""])

    def reason(self, group: str, writer: Writer, written: Written, row: RowRead) -> str:
        """Why a record with these headers is not taken; empty: it is."""
        if not self._verifier.needed(group):
            return ""
        ours, others = parted(written)
        signature = dict(written).get(SIGNATURE)
        content = (row.key, row.value, others, row.left_out < 0)
        return self._verifier.reason(
            SignedRecord(group, writer, signature, row.time_ms, spelled(ours), *content), self._place
        )

    def _fit(
        self,
        rows: pa.RecordBatch,
        groups: Column,
        among: Column,
        ours: _Ours,
        writer: Callable[[bytes | None], Writer],
    ) -> Column:
        good = np.ones(rows.num_rows, dtype=bool)
        judge = self._verifier
        keyed = {group for group in set(groups[among].tolist()) if judge.needed(group)}
        if not keyed:
            return good
        chosen = np.flatnonzero(among & np.array([group in keyed for group in groups.tolist()], dtype=bool))
        some = rows.take(pa.array(chosen))
        columns = zip(*(some.column(name).to_pylist() for name in (*_COLUMNS, "headers")), strict=True)
        for at, (name, group, offset, topic, source, signature, time_ms, left_out, key, value, packed) in zip(
            chosen.tolist(), columns, strict=True
        ):
            said_by, signed = writer(source), ours(name, group, offset, topic, source)
            content = (key, value, unpack_headers(packed) if packed else ())
            may = judge.may_sign(groups[at], said_by)
            if (
                may
                and signature
                and surely_fits(may, signature, self._place, signed, time_ms, content if left_out < 0 else None)
            ):
                continue
            record = SignedRecord(groups[at], said_by, signature, time_ms, signed, *content, left_out < 0)
            good[at] = not judge.reason(record, self._place)
        return good


def _named(name: str, value: bytes) -> bytes:
    return b"%b%d:%b," % (_BEGINS[name], len(value), value)


# Few groups, topics and words are many records' together.
@lru_cache(_MOST_ENDS)
def _end_of_half(group: bytes, topic: bytes, lane: bytes | None) -> bytes:
    named = [(GROUP, group), (TOPIC, topic), *([] if lane is None else [(LANE, lane)])]
    return spelled(named)


@lru_cache(_MOST_ENDS)
def _end_of_op(action: bytes, source: bytes | None, fact: LaneFact | None) -> bytes:
    return spelled([(ACTION, action), (SOURCE, source), *([fact.header] if fact else [])])


_BEGINS = {name: b"%d:%b," % (len(name), name.encode()) for name in (ID, GROUP, HALF)}
