"""In a task: whether decoded records are signed by who may have written them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from access.verifying import SignedRecord, Verifier, Writer
from checkback.wire.lanes import LaneFact
from checkback.wire.limits import JUDGED_BYTES
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import ACTION, GROUP, HALF, ID, LANE, SIGNATURE, SOURCE, TOPIC, Source
from checkback.wire.signed_records import (
    SigningKey,
    Written,
    parted,
    place_of,
    spelled,
    spelled_content,
    spelled_name,
)
from state.rows import Column
from streaming.access.signed_columns import (
    SignedColumns,
    Spelled,
    joined,
    named_strings,
    spelled_headers,
    strings,
    surely_signed,
    texts,
)

_COLUMNS = [
    *("source", "signature", "time_ms", "left_out", "key", "value", "headers"),
    *("transaction_id", "group", "offset", "topic"),
]
_AT_ONCE = 4_096
"""Records: what is signed of them is held three times meanwhile."""
_WRITERS = {one.value.encode(): Writer(one.value) for one in Source}
_ID, _GROUP, _TOPIC, _LANE = (spelled_name(name) for name in (ID, GROUP, TOPIC, LANE))
_HALF, _ACTION, _SOURCE = (spelled_name(name) for name in (HALF, ACTION, SOURCE))


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

        def ours(some: pa.RecordBatch) -> Spelled:
            named = _named(some, [(_ID, "transaction_id"), (_GROUP, "group"), (_TOPIC, "topic")])
            return (*named, *named_strings(_LANE, some.column("source")))

        return self._fit(rows, groups, among, ours, lambda _: Writer.PRODUCER)

    def of_ops(self, rows: pa.RecordBatch, groups: Column, among: Column, fact: LaneFact | None) -> Column:
        """bool[n]: likewise of ops that all say this of a lane."""

        def ours(some: pa.RecordBatch) -> Spelled:
            half = joined(b"%d:" % self._partition, texts(some.column("offset")))
            begin = _named(some, [(_ID, "transaction_id"), (_GROUP, "group")])
            said = _named(some, [(_ACTION, "topic"), (_SOURCE, "source")])
            return (*begin, _HALF, *strings(half), *said, spelled([fact.header] if fact else []))

        return self._fit(rows, groups, among, ours, lambda source: _WRITERS[source or b""])

    def reason(self, group: str, writer: Writer, written: Written, row: RowRead) -> str:
        """Why a record with these headers is not taken; empty: it is."""
        if not self._verifier.needed(group, writer):
            return ""
        ours, others = parted(written)
        signature = own_headers(written).get(SIGNATURE)
        content = spelled_content(row.key, row.value, spelled(others)) if row.left_out < 0 else None
        record = SignedRecord(group, writer, signature, row.time_ms, spelled(ours), content)
        reason = self._verifier.reason(record, self._place)
        cut = row.left_out >= 0 and any(len(value or b"") >= JUDGED_BYTES for _, value in ours)
        return "a cb- header is too long for a signed half message of this size" if reason and cut else reason

    def _fit(
        self,
        rows: pa.RecordBatch,
        groups: Column,
        among: Column,
        ours: Callable[[pa.RecordBatch], Spelled],
        writer: Callable[[bytes | None], Writer],
    ) -> Column:
        good = np.ones(rows.num_rows, dtype=bool)
        keyed = {group for group in set(groups[among].tolist()) if self._verifier.needed(group)}
        if not keyed:
            return good
        chosen = np.flatnonzero(among & np.array([group in keyed for group in groups.tolist()], dtype=bool))
        some = rows.select(_COLUMNS)
        if len(chosen) < rows.num_rows:
            some, groups = some.take(pa.array(chosen)), groups[chosen]
        for first in range(0, len(chosen), _AT_ONCE):
            piece = slice(first, first + _AT_ONCE)
            good[chosen[piece]] = self._judged(some.slice(first, _AT_ONCE), groups[piece], ours, writer)
        return good

    def _judged(
        self,
        rows: pa.RecordBatch,
        groups: Column,
        ours: Callable[[pa.RecordBatch], Spelled],
        writer: Callable[[bytes | None], Writer],
    ) -> Column:
        records = SignedColumns(
            groups,
            rows.column("source"),
            rows.column("signature"),
            rows.column("time_ms").to_numpy(),
            ours(rows),
            _contents(rows),
        )

        @cache
        def may_sign(group: str, source: bytes | None) -> Mapping[bytes, SigningKey]:
            return self._verifier.may_sign(group, writer(source)) or {}

        good = surely_signed(records, self._place, may_sign)
        for at in np.flatnonzero(~good).tolist():
            said_by, signature = records.sources[at].as_py(), records.signatures[at].as_py()
            content, time_ms = records.contents[at].as_py(), int(records.times_ms[at])
            record = SignedRecord(groups[at], writer(said_by), signature, time_ms, records.ours_of(at), content)
            good[at] = not self._verifier.reason(record, self._place)
        return good


def _named(some: pa.RecordBatch, columns: Iterable[tuple[bytes, str]]) -> Iterator[pa.Array | bytes]:
    for name, column in columns:
        yield name
        yield from strings(some.column(column))


def _contents(some: pa.RecordBatch) -> pa.Array:
    """binary[n]: ``spelled_content``; null where some of it is not here."""
    packed = some.column("headers")
    bare = packed.null_count == len(packed)
    written = b"" if bare else spelled_headers(packed)
    made = joined(*strings(some.column("key")), *strings(some.column("value")), written)
    return pc.if_else(pc.less(some.column("left_out"), 0), made, pa.scalar(None, pa.binary()))
