"""Decoded records of a batch, sorted into half messages, ops, and what breaks the protocol."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from access.verifying import Verifier, Writer, writer_of_half
from checkback.wire.lanes import LANE_DIGITS
from checkback.wire.limits import MAX_REMARK_BYTES, header_bytes
from checkback.wire.protocol import ACTION, GROUP, HALF, ID, LANE, SIGNATURE, SOURCE, TOPIC, Topics
from state import BROKEN_FIELDS, HALF_FIELDS, OP_FIELDS, Event, Fields, Rows
from state.content import KEPT_BYTES, SHUFFLED_BYTES
from state.rows import NO_LANE, UNSETTLED_LANE, Column, objects
from state.segment import BEYOND_REASON
from streaming.access.signatures import RowRead, Signatures
from streaming.batch.headers import Headers, packed_headers, unpack_headers
from streaming.stateful.broken import OPTIONS, WrittenHalf, WrittenOp, read_half, read_op
from streaming.stateful.by_column import Vouched, vouched_halves, vouched_ops
from streaming.stateful.decode import (
    FACT_KINDS,
    HALF_KIND,
    HALF_ORDER,
    LARGE_HALF_KIND,
    OP_KIND,
    OTHER_HALF_KIND,
    OTHER_OP_KIND,
)

OPTION_FIELDS = ("partition", "immunity_ms", "check_max", "deliver_at_ms")
HELD = len(OPTIONS)
"""In the columns of options: whether the job wrote the half message itself."""
_FACTS = {OP_KIND: None, **{kind: fact for fact, kind in FACT_KINDS.items()}}
"""What ops of these kinds say of a lane."""
_KINDS = (HALF_KIND, *_FACTS, OTHER_HALF_KIND, OTHER_OP_KIND, LARGE_HALF_KIND)
_IN_ORDER = frozenset({HALF_KIND, *_FACTS})
_HALF_KINDS = frozenset({HALF_KIND, OTHER_HALF_KIND, LARGE_HALF_KIND})
_CONTENT = ("key", "value", "headers")
_NAMES_BYTES = sum(map(len, HALF_ORDER))
_LANE_BYTES = len(LANE) + LANE_DIGITS
_OUR_BYTES = 1_000
"""The four headers of a half message that come first have less together."""


class SortedRecords:
    """What a batch brings for one segment.

    ``verifier`` judges signatures; None: nothing has to be signed.
    """

    def __init__(self, topics: Topics, verifier: Verifier | None = None) -> None:
        self._topics = topics
        self._verifier = verifier
        self._own = frozenset(topics.all())
        self._halves: list[Rows] = []
        self._options: list[Column] = []
        self._ops: list[Rows] = []
        self._broken: list[Rows] = []

    def add(self, chunk: pa.RecordBatch) -> None:
        """Read a record batch with the columns of ``streaming.stateful.decode``."""
        for kind, rows in _by_kind(chunk):
            if kind == HALF_KIND:
                vouched = vouched_halves(rows, self._own)
                chosen = vouched.good & self._signed(kind, rows, vouched)
                good, others = _parted(rows, chosen)
                if good is not None:
                    columns = {name: column[chosen] for name, column in vouched.columns.items()}
                    self._add_halves(good, columns, np.full((good.num_rows, HELD + 1), -1, np.int64))
            elif kind in _FACTS:
                vouched = vouched_ops(rows, _FACTS[kind])
                chosen = vouched.good & self._signed(kind, rows, vouched)
                good, others = _parted(rows, chosen)
                if good is not None:
                    self._add_ops(good, {name: column[chosen] for name, column in vouched.columns.items()})
            else:
                others = rows
            if others is not None and kind == HALF_KIND and self._verifier is not None:
                # a retry that is not taken in becomes a dead letter only with its signature
                retries, others = _parted(others, self._for_retry(others))
                if retries is not None:
                    self._one_by_one(OTHER_HALF_KIND, _not_in_order(retries))
            if others is not None:
                self._one_by_one(kind, others)

    def halves(self) -> tuple[Rows, Column]:
        """Half messages (``HALF_FIELDS``), and int64[n, 6]: the numbers of ``OPTIONS``, and held; -1: not given."""
        if not self._halves:
            return Rows.empty(HALF_FIELDS), np.empty((0, HELD + 1), np.int64)
        return Rows.concat(self._halves), np.concatenate(self._options)

    def ops(self) -> Rows:
        """Ops (``OP_FIELDS``)."""
        return Rows.concat(self._ops) if self._ops else Rows.empty(OP_FIELDS)

    def broken(self) -> Rows:
        """The others (``BROKEN_FIELDS``)."""
        return Rows.concat(self._broken) if self._broken else Rows.empty(BROKEN_FIELDS)

    def _signed(self, kind: int, rows: pa.RecordBatch, vouched: Vouched) -> Column | bool:
        """bool[n]: which of those that are vouched for are signed by who may."""
        if self._verifier is None:
            return True
        signatures, groups = self._signatures(kind, rows, self._verifier), vouched.columns["group"]
        if kind == HALF_KIND:
            return signatures.of_halves(rows, groups, vouched.good) & ~self._for_retry(rows)
        return signatures.of_ops(rows, groups, vouched.good, _FACTS[kind])

    def _for_retry(self, rows: pa.RecordBatch) -> Column:
        """bool[n]: which may be for topics of consumer groups; who may sign them depends on the whole name."""
        topics = rows.column("topic")
        begins = [pc.starts_with(topics, one) for one in (self._topics.retry(""), self._topics.dead(""))]
        found: Column = pc.or_(*begins).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003  (its signature)
        return found

    def _signatures(self, kind: int, rows: pa.RecordBatch, verifier: Verifier) -> Signatures:
        topic = self._topics.half if kind in _HALF_KINDS else self._topics.op
        return Signatures(verifier, topic, rows.column("half_partition")[0].as_py())

    def _add_halves(self, rows: pa.RecordBatch, columns: dict[str, Column], options: Column) -> None:
        event = columns.get("event", np.full(rows.num_rows, Event.HALF, np.uint8))
        numbers = {name: options[:, at] for at, name in enumerate(OPTION_FIELDS)}
        numbers["held"] = options[:, HELD]
        if "lane" not in columns:
            columns = {
                **columns,
                "lane": np.full(rows.num_rows, NO_LANE, np.int8),
                "lane_name": np.full(rows.num_rows, None, object),
            }
        made = _rows(rows, HALF_FIELDS, {**columns, **numbers, "event": event})
        kind = rows.column("kind")[0].as_py()
        if kind != LARGE_HALF_KIND:
            _set_aside(made, _most_bytes(rows), in_order=kind == HALF_KIND)
        self._halves.append(made)
        self._options.append(options)

    def _add_ops(self, rows: pa.RecordBatch, columns: dict[str, Column]) -> None:
        offsets = {"half_offset": rows.column("offset"), "op_offset": rows.column("record_offset")}
        numbers = {name: column.to_numpy().copy() for name, column in offsets.items()}
        made = _rows(rows, OP_FIELDS, {**columns, **numbers})
        for name in ("key", "value"):  # remarks are for people
            for at in np.flatnonzero(_sizes(rows.column(name)) > MAX_REMARK_BYTES).tolist():
                made[name][at] = made[name][at][:MAX_REMARK_BYTES]
        self._ops.append(made)

    def _one_by_one(self, kind: int, rows: pa.RecordBatch) -> None:
        written = [*_headers(kind, rows)]
        if kind == LARGE_HALF_KIND:
            rows = rows.set_column(rows.schema.get_field_index("headers"), "headers", pa.nulls(len(rows), pa.string()))
        said = self._said(kind, rows, written)
        if self._verifier is not None:
            said = self._by_who_may(said, written, rows, self._signatures(kind, rows, self._verifier))
        halves = {at: one for at, one in enumerate(said) if isinstance(one, WrittenHalf)}
        ops = {at: one for at, one in enumerate(said) if isinstance(one, WrittenOp)}
        wrong = {at: one for at, one in enumerate(said) if isinstance(one, str)}
        if halves:
            self._add_halves(rows.take(pa.array(halves)), *_columns_of(list(halves.values())))
        if ops:
            columns = {name: objects([getattr(op, name) for op in ops.values()]) for name in WrittenOp._fields}
            events = columns["event"].astype(np.uint8)
            self._add_ops(rows.take(pa.array(ops)), {**columns, "event": events})
        if wrong:
            rest = [written[at] for at in wrong] if kind in _IN_ORDER else []
            self._add_broken(rows.take(pa.array(wrong)), list(wrong.values()), rest)

    def _said(self, kind: int, rows: pa.RecordBatch, written: list[Headers]) -> list[WrittenHalf | WrittenOp | str]:
        """What each record says, or what is wrong with it."""
        reasons = rows.column("reason").to_pylist()
        if kind in _HALF_KINDS:
            return [reason or read_half(headers, self._own) for reason, headers in zip(reasons, written, strict=True)]
        places = zip(rows.column("half_partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
        said = []
        for reason, headers, (partition, offset) in zip(reasons, written, places, strict=True):
            found = reason or read_op(headers, partition)
            # one that names no place of a half message, and nothing else is wrong with it
            said.append(BEYOND_REASON if isinstance(found, WrittenOp) and offset < 0 else found)
        return said

    def _by_who_may(
        self,
        said: Iterable[WrittenHalf | WrittenOp | str],
        written: list[Headers],
        rows: pa.RecordBatch,
        signatures: Signatures,
    ) -> list[WrittenHalf | WrittenOp | str]:
        """The same, and of what is not signed by who may write it why not."""
        read = (RowRead(*row) for row in zip(*(rows.column(name).to_pylist() for name in RowRead._fields), strict=True))
        return [
            one if isinstance(one, str) else signatures.reason(one.group, self._writer(one), headers, row) or one
            for one, headers, row in zip(said, written, read, strict=True)
        ]

    def _writer(self, said: WrittenHalf | WrittenOp) -> Writer:
        if isinstance(said, WrittenOp):
            return Writer(said.source)
        return Writer.JOB if said.held else writer_of_half(said.group, said.topic, self._topics)

    def _add_broken(self, rows: pa.RecordBatch, reasons: Sequence[str], written: Sequence[Headers]) -> None:
        is_half = rows.column("kind")[0].as_py() in _HALF_KINDS
        columns = {
            "topic": np.full(rows.num_rows, self._topics.half if is_half else self._topics.op, dtype=object),
            "offset": rows.column("record_offset").to_numpy().copy(),
            "reason": objects(reasons),
        }
        if written:
            columns["headers"] = objects([packed_headers(headers) for headers in written])
        self._broken.append(_rows(rows, BROKEN_FIELDS, columns))


def _by_kind(chunk: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    kinds = chunk.column("kind").to_numpy()
    left = len(kinds)
    for kind in _KINDS:
        if not left:
            return
        chosen = np.flatnonzero(kinds == kind)
        left -= len(chosen)
        if len(chosen):
            yield kind, chunk if len(chosen) == len(kinds) else chunk.take(pa.array(chosen))


def _parted(rows: pa.RecordBatch, good: Column) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
    if good.all():
        return rows, None
    if not good.any():
        return None, rows
    return rows.filter(pa.array(good)), rows.filter(pa.array(~good))


def _rows(rows: pa.RecordBatch, fields: Fields, columns: dict[str, Column]) -> Rows:
    """These columns, and all others as they came."""
    return Rows(
        {
            name: columns[name].astype(kind, copy=False) if name in columns else _column(rows.column(name), kind)
            for name, kind in fields.items()
        }
    )


def _column(values: pa.Array, kind: Any) -> Column:
    """A column that may be written to: Arrow's own memory may not."""
    found = values.to_numpy(zero_copy_only=False)
    return found if kind is object else found.astype(kind)


def _columns_of(halves: list[WrittenHalf]) -> tuple[dict[str, Column], Column]:
    names = ("transaction_id", "group", "topic")
    columns = {name: objects([getattr(half, name) for half in halves]) for name in names}
    columns["event"] = np.array([half.event for half in halves], dtype=np.uint8)
    columns["lane_name"] = objects([half.lane for half in halves])
    columns["lane"] = np.array([NO_LANE if half.lane is None else UNSETTLED_LANE for half in halves])
    options = [(*half.options, 1 if half.held else -1) for half in halves]
    return columns, np.array(options, dtype=np.int64)


def _headers(kind: int, rows: pa.RecordBatch) -> Iterator[Headers]:
    """All headers of each record, as they were written."""
    following = (unpack_headers(packed) for packed in rows.column("headers").to_pylist())
    if kind not in _IN_ORDER:
        yield from following
        return
    fact = _FACTS.get(kind)
    named = ("transaction_id", "group", "half_partition", "offset", "topic", "source", "signature")
    columns = zip(*(rows.column(name).to_pylist() for name in named), strict=True)
    for (transaction_id, group, partition, offset, topic, source, signature), rest in zip(
        columns, following, strict=True
    ):
        first: Headers = [(ID, transaction_id), (GROUP, group)]
        last: Headers = [] if signature is None else [(SIGNATURE, signature)]
        if kind == HALF_KIND:
            yield [*first, (TOPIC, topic), *([] if source is None else [(LANE, source)]), *rest, *last]
        else:
            said = [(HALF, b"%d:%d" % (partition, offset)), (ACTION, topic), (SOURCE, source)]
            yield [*first, *said, *([fact.header] if fact else []), *last]


def _not_in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Half messages in our SDK's order, as those in any other are read: with all headers in one column."""
    columns = {name: rows.column(name) for name in rows.schema.names}
    kinds = pa.array([OTHER_HALF_KIND] * len(rows), rows.schema.field("kind").type)
    packed = pa.array(map(packed_headers, _headers(HALF_KIND, rows)))
    return pa.RecordBatch.from_pydict(columns | {"kind": kinds, "headers": packed})


def _sizes(column: pa.Array) -> Column:
    found: Column = pc.binary_length(column).fill_null(0).to_numpy()
    return found


def _most_bytes(rows: pa.RecordBatch) -> Column:
    """Not less than the bytes of each half message's content: as JSON headers are longer than they are."""
    left_out = np.maximum(rows.column("left_out").to_numpy(), 0)
    return sum((_sizes(rows.column(name)).astype(np.int64) for name in _CONTENT), left_out + _OUR_BYTES)


def _set_aside(halves: Rows, most_bytes: Column, *, in_order: bool) -> None:
    """Let go of content that is too large to be carried along, in place: see ``state.content``."""
    for at in np.flatnonzero(most_bytes > SHUFFLED_BYTES).tolist():
        headers = header_bytes(unpack_headers(halves["headers"][at]))
        if in_order:
            headers += _NAMES_BYTES + sum(
                len(halves[name][at].encode()) for name in ("transaction_id", "group", "topic")
            )
            headers += 0 if halves["lane_name"][at] is None else _LANE_BYTES
        key, value = len(halves["key"][at] or b""), len(halves["value"][at] or b"")
        left_out = max(int(halves["left_out"][at]), value)
        if key + left_out + headers <= SHUFFLED_BYTES:
            continue
        halves["value"][at] = None
        if key + headers > KEPT_BYTES:
            left_out += headers
            halves["headers"][at] = None
            if key > KEPT_BYTES:
                left_out += key
                halves["key"][at] = None
        halves["left_out"][at] = left_out
