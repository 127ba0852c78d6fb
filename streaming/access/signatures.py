"""In a task: whether decoded records are signed by who may have written them."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from access.signers import Writer
from access.verifying import FastJudge, SignedRecord, Verifier
from checkback.wire.delivered import LaneFact
from checkback.wire.protocol import ACTION, GROUP, HALF, ID, LANE, SIGNATURE, SOURCE, TOPIC, Source
from checkback.wire.signed_records import BEGINS, Written, parted, place_of, spelled, spelled_content, spelled_name
from state.rows import Column
from streaming.batch.headers import spelled_headers

_COLUMNS = (
    *("source", "signature", "time_ms", "left_out", "key", "value", "headers"),
    *("transaction_id", "group", "offset", "topic"),
)
_WRITERS = {one.value.encode(): Writer(one.value) for one in Source}
_MOST_ENDS = 4_096
_ID, _HALF = spelled_name(ID), spelled_name(HALF)
_NO_CONTENT = spelled_content(None, b"", b"")
"""Of most ops."""
_Judges = dict[tuple[str, Writer], FastJudge]
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
            end = _end_of_half(group, topic, lane)
            return b"".join((_ID, BEGINS[len(transaction_id)], transaction_id, b",", end))

        return self._fit(rows, groups, among, ours, lambda _: Writer.PRODUCER)

    def of_ops(self, rows: pa.RecordBatch, groups: Column, among: Column, fact: LaneFact | None) -> Column:
        """bool[n]: likewise of ops that all say this of a lane."""

        def ours(transaction_id: bytes, group: bytes, offset: int, action: bytes, source: bytes | None) -> bytes:
            half = b"%d:%d" % (self._partition, offset)
            begin = (_ID, BEGINS[len(transaction_id)], transaction_id, b",", _group(group), _HALF, BEGINS[len(half)])
            return b"".join((*begin, half, b",", _end_of_op(action, source, fact)))

        return self._fit(rows, groups, among, ours, lambda source: _WRITERS[source or b""])

    def reason(self, group: str, writer: Writer, written: Written, row: RowRead) -> str:
        """Why a record with these headers is not taken; empty: it is."""
        if not self._verifier.needed(group):
            return ""
        ours, others = parted(written)
        signature = dict(written).get(SIGNATURE)
        content = spelled_content(row.key, row.value, spelled(others)) if row.left_out < 0 else None
        return self._verifier.reason(
            SignedRecord(group, writer, signature, row.time_ms, spelled(ours), content), self._place
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
        judges: _Judges = {}
        columns = zip(*(some.column(name).to_pylist() for name in _COLUMNS), strict=True)
        for at, group, (source, signature, time_ms, left_out, key, value, packed, name, in_group, offset, topic) in zip(
            chosen.tolist(), groups[chosen].tolist(), columns, strict=True
        ):
            signed = ours(name, in_group, offset, topic, source)
            content = _content(key, value, packed) if left_out < 0 else None
            said_by = writer(source)
            surely = judges.get((group, said_by)) or self._add(judges, group, said_by)
            if not surely.fits(signature, signed, time_ms, content):
                record = SignedRecord(group, said_by, signature, time_ms, signed, content)
                good[at] = not judge.reason(record, self._place)
        return good

    def _add(self, judges: _Judges, group: str, writer: Writer) -> FastJudge:
        made = judges[group, writer] = FastJudge(self._verifier.may_sign(group, writer) or {}, self._place)
        return made


def _content(key: bytes | None, value: bytes | None, packed: str | None) -> bytes:
    bare = key is None and value == b"" and not packed
    return _NO_CONTENT if bare else spelled_content(key, value, spelled_headers(packed))


# Few groups, topics and words are many records' together.
@lru_cache(_MOST_ENDS)
def _group(group: bytes) -> bytes:
    return spelled([(GROUP, group)])


@lru_cache(_MOST_ENDS)
def _end_of_half(group: bytes, topic: bytes, lane: bytes | None) -> bytes:
    named = [(GROUP, group), (TOPIC, topic), *([] if lane is None else [(LANE, lane)])]
    return spelled(named)


@lru_cache(_MOST_ENDS)
def _end_of_op(action: bytes, source: bytes | None, fact: LaneFact | None) -> bytes:
    return spelled([(ACTION, action), (SOURCE, source), *([fact.header] if fact else [])])
