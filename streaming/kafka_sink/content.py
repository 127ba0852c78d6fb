"""Outcomes whose content was not carried along get it back from the half topic, just before it is written.

What a message had (key, value, headers: its content) goes through Spark and stays in state only when it is small: see
``state.content``. All else is in ``cb.half``, where the row says; a batch that is run again reads the same there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from access.verifying import CHANGED, writer_of_half
from checkback.kafka.librdkafka.headers import headers_of
from checkback.kafka.librdkafka.library import Message
from checkback.wire import protocol
from checkback.wire.limits import content_bytes
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import HalfPosition, Topics
from checkback.wire.signed_records import WrittenSignature, parted, spelled, spelled_content
from state import BUNDLE, OutcomeKind
from state.content import SHUFFLED_BYTES
from state.outcomes import CHECK_PAYLOAD_BYTES
from streaming.access.told import told_policy, told_verifier, why_not_together
from streaming.batch.headers import Headers, application_headers, packed_headers, unpack_headers
from streaming.kafka_sink.half_reader import HalfReader
from streaming.kafka_sink.holding import half_of
from streaming.stateful.arrivals import wrong_with

GONE = "its content is gone from the half topic: retention has removed it, or somebody has"
ANOTHER = (
    "its content is gone: another message lies at its place, so the half topic was recreated, or its brokers lost it"
)
MOST_BYTES = 16 << 20
"""Of content that is read at once. The last message may lie across it."""
_READ = (OutcomeKind.DELIVER, OutcomeKind.DELIVER_BUNDLE, OutcomeKind.PARK, OutcomeKind.REJECT_RECORD)
_CHANGED = frozenset({"kind", "topic", "partition", "key", "value", "headers", "left_out", "reason"})

_CONSUMED = frozenset({OutcomeKind.DELIVER, OutcomeKind.DELIVER_BUNDLE})

Row = dict[str, Any]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Contents:
    """Fills content in. ``reader`` makes the reader when the first row needs it: in most tasks none does."""

    def __init__(self, topics: Topics, reader: Callable[[], HalfReader], most_bytes: int = MOST_BYTES) -> None:
        self._topics = topics
        self._reader = reader
        self._most_bytes = most_bytes
        self.counts: Counter[str] = Counter()
        """What became of messages here, and not in the state machine."""
        self._lost: set[HalfPosition] = set()
        """Committed messages whose content cannot be had any more."""

    def filled(self, batch: pa.RecordBatch, among: Mask | None = None) -> Iterator[pa.RecordBatch]:
        """The same rows with their content, in batches of bounded size; at least one row each.

        A committed row whose content cannot be had becomes one for ``cb.parked`` that says so: nobody's message stops
        the job. If operators had it, it stays in their list. ``among``: fill in only these rows.

        Raises:
            KafkaException: Kafka does not answer.
        """
        wanted = left_out(batch) if among is None else left_out(batch) & among
        if not wanted.any():
            yield from self._without_ends(batch)
            return
        # how many times the limit the bytes before each row are: rows of one number go together
        sizes = np.where(wanted, batch.column("left_out").to_numpy(), 0)
        numbers = (np.cumsum(sizes) - sizes) // self._most_bytes
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in pairwise([0, *edges.tolist(), batch.num_rows]):
            piece = batch.slice(start, end - start)
            chosen = np.flatnonzero(wanted[start:end])
            yield from self._without_ends(self._fill(piece, chosen.tolist()) if len(chosen) else piece)

    def _without_ends(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Without what would tell operators that a message is done whose content is gone; it comes after all else."""
        if self._lost:
            ends = np.flatnonzero(piece.column("kind").to_numpy() == OutcomeKind.PARK_END)
            wrong = [at for at in ends.tolist() if half_of(piece.slice(at, 1).to_pylist()[0]) in self._lost]
            piece = piece.filter(pa.array(~np.isin(np.arange(piece.num_rows), wrong)))
        if piece.num_rows:
            yield piece

    def _fill(self, piece: pa.RecordBatch, chosen: list[int]) -> pa.RecordBatch:
        rows = piece.take(pa.array(chosen)).to_pylist()
        found = self._read(rows)
        changed = {at: self._whole(row, found) for at, row in zip(chosen, rows, strict=True)}
        columns = []
        for field in piece.schema:
            if field.name in _CHANGED:
                values = piece.column(field.name).to_pylist()
                for at, row in changed.items():
                    values[at] = row[field.name]
                columns.append(pa.array(values, field.type))
            else:
                columns.append(piece.column(field.name))
        return pa.RecordBatch.from_arrays(columns, schema=piece.schema)

    def _read(self, rows: list[Row]) -> Mapping[HalfPosition, Message | None]:
        places: dict[int, list[int]] = {}
        for row in rows:
            places.setdefault(row["half_partition"], []).append(row["half_offset"])
        reader = self._reader()
        return {
            HalfPosition(partition, offset): message
            for partition in sorted(places)
            for offset, message in reader.read(partition, places[partition])
        }

    def _whole(self, row: Row, found: Mapping[HalfPosition, Message | None]) -> Row:
        message = found[half_of(row)]
        if message is None:
            return self._gone(row, GONE)
        headers = headers_of(message)
        if headers is None or not _as_large(row, message):
            return self._gone(row, ANOTHER)
        if row["kind"] != OutcomeKind.REJECT_RECORD and not _same(row, own_headers(headers)):
            return self._gone(row, ANOTHER)
        row = {**row, "value": message.value(), "left_out": -1}
        # what is not here was set aside, or there is none
        row["key"] = message.key() if row["key"] is None else row["key"]
        row["headers"] = packed_headers(headers) if row["headers"] is None else row["headers"]
        if row["kind"] in _CONSUMED and self._changed(row, headers):
            return self._refused({**row, "headers": packed_headers(headers)}, CHANGED)
        if row["partition"] == BUNDLE:
            return self._looked_at(row, headers)
        if row["kind"] == OutcomeKind.CHECK and len(row["value"] or b"") > CHECK_PAYLOAD_BYTES:
            row |= {"left_out": len(row["value"]), "value": None}
        return row

    def _changed(self, row: Row, headers: Headers) -> bool:
        """Whether it is not the content whose hash was signed; the signature was judged when it was taken in.

        So was content that is signed without a hash. And without a signature it was taken in before its group had keys.
        """
        verifier = told_verifier()
        writer = writer_of_half(row["group"], row["topic"], self._topics)
        if verifier is None or not verifier.needed(row["group"], writer):
            return False
        said = WrittenSignature.parse(own_headers(headers).get(protocol.SIGNATURE))
        content = spelled_content(row["key"], row["value"], spelled(parted(headers)[1]))
        return said is not None and not said.same_content(content)

    def _refused(self, row: Row, why: str) -> Row:
        self.counts["malformed"] += 1  # not ``rejected``: it was counted when it was taken in
        return {**row, "kind": int(OutcomeKind.REJECT_RECORD), "topic": self._topics.half, "reason": why}

    def _looked_at(self, row: Row, headers: Headers) -> Row:
        """A value of several messages: of a large one nobody has looked at it when it came.

        The policy was asked of any other when it came: what is open is not held against a policy of later.
        """
        count = own_headers(unpack_headers(row["headers"])).get(protocol.MESSAGES, b"0")
        came_whole = content_bytes(row["key"], row["value"], headers) <= SHUFFLED_BYTES
        policy = None if came_whole else told_policy(self._topics)
        why_not = partial(why_not_together, policy, row["group"])
        wrong = wrong_with(row["value"], application_headers(row["headers"]), int(count), self._topics, why_not)
        if wrong is None:
            return row
        if row["kind"] == OutcomeKind.DELIVER_BUNDLE:
            return self._refused({**row, "headers": packed_headers(headers)}, wrong)
        return {**row, "partition": -1}  # nobody can say what it holds

    def _gone(self, row: Row, why: str) -> Row:
        """What is written of a message that cannot be had: what is known."""
        nothing = {"value": None, "left_out": -1, "partition": max(row["partition"], -1)}
        if row["kind"] == OutcomeKind.CHECK:
            return {**row, **nothing, "left_out": max(row["left_out"], 0)}
        self.counts["gone"] += 1
        if row["kind"] in {OutcomeKind.PARK, OutcomeKind.REJECT_RECORD}:
            return {**row, **nothing, "reason": f"{row['reason']}; {why}" if row["reason"] else why}
        self.counts["parked"] += 1
        self._lost.add(half_of(row))
        place = f"{protocol.UNDELIVERABLE} {row['topic']}: {why} ({half_of(row)})"
        return {**row, **nothing, "kind": int(OutcomeKind.PARK), "reason": place}


def left_out(batch: pa.RecordBatch) -> Mask:
    """bool[n]: rows of outcomes to be written with content that is not there; large values are not asked about."""
    sizes, kinds = batch.column("left_out").to_numpy(), batch.column("kind").to_numpy()
    small_check = (kinds == OutcomeKind.CHECK) & (sizes <= CHECK_PAYLOAD_BYTES)
    found: Mask = (sizes >= 0) & (small_check | np.isin(kinds, _READ))
    return found


def _as_large(row: Row, message: Message) -> bool:
    """Whether a record has the message's key, where that was kept, and a value of its size."""
    size = len(message.value() or b"")
    if row["key"] is not None and row["key"] != message.key():
        return False
    return size <= row["left_out"] if row["headers"] is None else size == row["left_out"]


def _same(row: Row, headers: Mapping[str, bytes]) -> bool:
    return (headers.get(protocol.ID), headers.get(protocol.GROUP)) == (
        row["transaction_id"].encode(),
        row["group"].encode(),
    )
