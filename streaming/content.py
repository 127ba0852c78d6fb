"""Outcomes whose content was not carried along get it back from the half topic, just before it is written.

What a message had (key, value, headers: its content) goes through Spark and stays in state only when it is small: see
``state.content``. All else is in ``cb.half``, where the row says; a batch that is run again reads the same there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from checkback import protocol
from checkback.protocol import Topics
from state import BUNDLE, Kind
from state.outcomes import CHECK_PAYLOAD_BYTES
from streaming.arrivals import wrong_with
from streaming.half_reader import HalfReader
from streaming.holding import half_of
from streaming.packing import packed_headers, unpack_headers

GONE = "its content is gone from the half topic: retention has removed it, or somebody has"
_READ = {Kind.DELIVER, Kind.DELIVER_BUNDLE, Kind.PARK}
_MOST_BYTES = 32 << 20

Row = dict[str, Any]


class Contents:
    """Fills content in. ``reader`` makes the reader when the first row needs it: in most tasks none does."""

    def __init__(self, topics: Topics, reader: Callable[[], HalfReader], most_bytes: int = _MOST_BYTES) -> None:
        self._topics = topics
        self._reader = reader
        self._most_bytes = most_bytes

    def filled(self, batch: pa.RecordBatch, counts: Counter[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The same rows with their content, in one or more batches of bounded size; at least one row each.

        A row whose content cannot be had becomes one that says so: nobody's message stops the job. ``counts`` hears of
        these.

        Raises:
            KafkaException: Kafka does not answer.
        """
        wanted = self._wanted(batch)
        if not wanted.any():
            yield batch
            return
        # how many times the limit the bytes before each row are: rows of one number go together
        sizes = np.where(wanted, batch.column("left_out").to_numpy(), 0)
        numbers = (np.cumsum(sizes) - sizes) // self._most_bytes
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in pairwise([0, *edges.tolist(), batch.num_rows]):
            piece = batch.slice(start, end - start)
            chosen = np.flatnonzero(wanted[start:end])
            yield self._fill(piece, chosen.tolist(), Counter() if counts is None else counts) if len(chosen) else piece

    def _wanted(self, batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        left_out, kinds = batch.column("left_out").to_numpy(), batch.column("kind").to_numpy()
        check = (kinds == Kind.CHECK) & (left_out <= CHECK_PAYLOAD_BYTES)
        wanted: np.ndarray[Any, np.dtype[np.bool_]] = (left_out >= 0) & (check | np.isin(kinds, list(_READ)))
        return wanted

    def _fill(self, piece: pa.RecordBatch, chosen: list[int], counts: Counter[str]) -> pa.RecordBatch:
        rows = piece.take(pa.array(chosen)).to_pylist()
        found = self._read(rows)
        changed = {at: self._whole(row, found, counts) for at, row in zip(chosen, rows, strict=True)}
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

    def _read(self, rows: list[Row]) -> Mapping[tuple[int, int], Message | None]:
        places: dict[int, list[int]] = {}
        for row in rows:
            places.setdefault(row["half_partition"], []).append(row["half_offset"])
        reader = self._reader()
        return {
            (partition, offset): message
            for partition in sorted(places)
            for offset, message in reader.read(partition, places[partition])
        }

    def _whole(self, row: Row, found: Mapping[tuple[int, int], Message | None], counts: Counter[str]) -> Row:
        message = found[row["half_partition"], row["half_offset"]]
        if message is None:
            return _gone(row, counts)
        row = {**row, "value": message.value(), "left_out": -1}
        if row["key"] is None and row["headers"] is None:  # set aside, too, or there were none
            # none has a name that is no UTF-8: reading that would crash the process
            row["key"] = message.key()
            headers: Any = message.headers() or []  # typed as what one may write
            row["headers"] = packed_headers(headers)
        if row["partition"] == BUNDLE:
            return self._looked_at(row, counts)
        if row["kind"] == Kind.CHECK and len(row["value"] or b"") > CHECK_PAYLOAD_BYTES:
            row |= {"left_out": len(row["value"]), "value": None}
        return row

    def _looked_at(self, row: Row, counts: Counter[str]) -> Row:
        """A value of several messages, which nobody has looked at when it came."""
        count = dict(unpack_headers(row["headers"])).get(protocol.MESSAGES) or b"0"
        wrong = wrong_with(row["value"], int(count), self._topics)
        if wrong is None:
            return row
        if row["kind"] == Kind.DELIVER_BUNDLE:
            counts["rejected"] += 1
            return {**row, "kind": int(Kind.REJECT_RECORD), "topic": self._topics.half, "reason": wrong}
        return {**row, "partition": -1}  # nobody can say what it holds


_CHANGED = {"kind", "topic", "partition", "key", "value", "headers", "left_out", "reason"}


def _gone(row: Row, counts: Counter[str]) -> Row:
    """What is written of a message that cannot be had: to ``cb.parked``, with what is known."""
    nothing = {"value": None, "left_out": -1, "partition": max(row["partition"], -1)}
    if row["kind"] == Kind.CHECK:
        return {**row, **nothing, "left_out": max(row["left_out"], 0)}
    counts["gone"] += 1
    if row["kind"] == Kind.PARK:
        return {**row, **nothing, "reason": f"{row['reason']}; {GONE}" if row["reason"] else GONE}
    counts["parked"] += 1
    place = f"{protocol.UNDELIVERABLE} {row['topic']}: {GONE} ({half_of(row)})"
    return {**row, **nothing, "kind": int(Kind.PARK), "reason": place}
