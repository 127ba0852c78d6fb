"""Outcome rows to Kafka records: the last step before the sink."""

import json
from binascii import a2b_base64
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from checkback import protocol
from checkback.check_protocol import CheckRequest
from checkback.protocol import HalfPosition, Topics
from state import BUNDLE, Kind

Headers = list[tuple[str, bytes | None]]

RANDOM_OR_KEYED = -1
"""Partition: the partitioner's choice."""


class Record(NamedTuple):
    """What the sink writes."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def unpack_headers(packed: str | None) -> Headers:
    """Headers of Spark's ``to_json`` of its header array, in their order; a null value is left out there."""
    if not packed:
        return []
    pairs: Headers = []
    for header in orjson.loads(packed):
        value = header.get("value")
        pairs.append((header["key"], None if value is None else a2b_base64(value)))
    return pairs


def application_headers(packed: str | None) -> Headers:
    """Those that consumers shall see: a half message not in our SDK's order is kept with the protocol's own."""
    return [pair for pair in unpack_headers(packed) if not pair[0].startswith(protocol.RESERVED_PREFIX)]


class RecordBuilder:
    """Builds the records of an outcome batch; topics named in it exist as ``partitions`` says."""

    def __init__(self, topics: Topics, partitions: dict[str, int]) -> None:
        self._topics = topics
        self._partitions = partitions

    def build(self, batch: pa.RecordBatch) -> Iterator[Record]:
        """Records of one batch of outcomes (``OUTCOME_FIELDS`` and ``half_partition``), counts left out."""
        kinds = batch.column("kind").to_numpy()
        # Outcomes of a kind lie together: a segment's evaluation gives them so.
        edges = np.flatnonzero(np.diff(kinds)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(kinds)]):
            kind, piece = int(kinds[start]), batch.slice(start, end - start)
            if kind == Kind.DELIVER:
                yield from self._delivered(piece)
            elif kind == Kind.DELIVER_BUNDLE:
                for row in piece.to_pylist():
                    yield from self._bundle(row)
            elif kind != Kind.COUNT:
                yield from (self._other(Kind(kind), row) for row in piece.to_pylist())

    def _delivered(self, batch: pa.RecordBatch) -> Iterator[Record]:
        names = ("topic", "partition", "key", "value", "headers", "tx_id")
        columns = (batch.column(name).to_pylist() for name in names)
        for row, (topic, partition, key, value, headers, tx_id) in enumerate(zip(*columns, strict=True)):
            if self._takes(topic, partition):
                yield Record(
                    topic, partition, key, value, [(protocol.ID, tx_id.encode()), *application_headers(headers)]
                )
            else:
                yield self._undeliverable(batch.slice(row, 1).to_pylist()[0], application_headers(headers))

    def _takes(self, topic: str, partition: int) -> bool:
        return topic in self._partitions and partition < self._partitions[topic]

    def _bundle(self, row: dict[str, Any]) -> Iterator[Record]:
        """All messages of one transaction, in the order they were added; each has an id of its own."""
        common = application_headers(row["headers"])
        for number, message in enumerate(protocol.unpack(row["value"]), start=1):
            partition = RANDOM_OR_KEYED if message.partition is None else message.partition
            one = {**row, "tx_id": f"{row['tx_id']}#{number}", "topic": message.topic, "partition": partition}
            headers = [*message.headers, *common]
            if self._takes(message.topic, partition):
                named = (protocol.ID, one["tx_id"].encode())
                yield Record(message.topic, partition, message.key, message.value, [named, *headers])
            else:
                yield self._undeliverable({**one, "key": message.key, "value": message.value}, headers)

    def _other(self, kind: Kind, row: dict[str, Any]) -> Record:
        if kind == Kind.CHECK:
            return self._check(row)
        if kind == Kind.PARK:
            return self._parked(row)
        if kind == Kind.REJECT_OP:
            return self._rejected_op(row)
        if kind == Kind.REJECT_RECORD:
            return self._rejected_record(row)
        return self._status(row, ended=kind == Kind.STATUS_END)

    def _check(self, row: dict[str, Any]) -> Record:
        several = protocol.unpack(row["value"]) if row["partition"] == BUNDLE else ()
        request = CheckRequest(
            transaction_id=row["tx_id"],
            group=row["group"],
            topic=row["topic"],
            key=row["key"],
            value=None if several else row["value"],
            headers=[(name, value or b"") for name, value in application_headers(row["headers"])],
            half=_half(row),
            attempt=row["attempt"],
            check_max=row["check_max"],
            born_ms=row["born_ms"],
            messages=several,
        )
        key, value, headers = request.to_record()
        return Record(self._topics.check, RANDOM_OR_KEYED, key, value, list(headers))

    def _undeliverable(self, row: dict[str, Any], headers: Headers) -> Record:
        count = self._partitions.get(row["topic"])
        there_is = "there is no such topic" if count is None else f"that topic has {count} partitions"
        asked = f" partition {row['partition']}" if row["partition"] >= 0 else ""
        reason = f"{protocol.UNDELIVERABLE} {row['topic']}{asked}: {there_is}"
        return self._to_parked({**row, "reason": reason}, headers)

    def _parked(self, row: dict[str, Any]) -> Record:
        headers = application_headers(row["headers"])
        if row["partition"] == BUNDLE:
            headers = [(protocol.MESSAGES, str(len(protocol.unpack(row["value"]))).encode()), *headers]
        return self._to_parked(row, headers)

    def _to_parked(self, row: dict[str, Any], headers: Headers) -> Record:
        partition = row["partition"]
        ours: Headers = [
            (protocol.ID, row["tx_id"].encode()),
            (protocol.GROUP, row["group"].encode()),
            (protocol.TOPIC, row["topic"].encode()),
            *([(protocol.PARTITION, str(partition).encode())] if partition >= 0 else []),
            (protocol.HALF, str(_half(row)).encode()),
            (protocol.REASON, row["reason"].encode()),
        ]
        return Record(self._topics.parked, RANDOM_OR_KEYED, row["key"], row["value"], [*ours, *headers])

    def _rejected_op(self, row: dict[str, Any]) -> Record:
        action, _, source = row["topic"].partition("/")
        written = unpack_headers(row["headers"]) or list(
            protocol.op_headers(
                row["tx_id"], row["group"], _half(row), protocol.Action(action), protocol.Source(source)
            )
        )
        return self._rejected(row, self._topics.op, row["born_ms"], written)

    def _rejected_record(self, row: dict[str, Any]) -> Record:
        return self._rejected(row, row["topic"], row["half_offset"], unpack_headers(row["headers"]))

    def _rejected(self, row: dict[str, Any], topic: str, offset: int, written: Headers) -> Record:
        came_from = f"{topic}:{row['half_partition']}:{offset}".encode()
        headers: Headers = [(protocol.REASON, row["reason"].encode()), (protocol.FROM, came_from), *written]
        return Record(self._topics.rejected, RANDOM_OR_KEYED, row["key"], row["value"], headers)

    def _status(self, row: dict[str, Any], *, ended: bool) -> Record:
        body = {
            "id": row["tx_id"],
            "group": row["group"],
            "topic": row["topic"],
            "half": str(_half(row)),
            "attempt": row["attempt"],
            "check_max": row["check_max"],
            "born_ms": row["born_ms"],
        }
        value = None if ended else json.dumps(body).encode()
        return Record(self._topics.status, RANDOM_OR_KEYED, row["tx_id"].encode(), value, [])


def _half(row: dict[str, Any]) -> HalfPosition:
    return HalfPosition(row["half_partition"], row["half_offset"])
