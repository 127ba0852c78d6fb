"""Outcome rows to Kafka records: the last step before the sink."""

import json
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from checkback import protocol
from checkback.check_protocol import CheckRequest
from checkback.exceptions import OwnTopicError
from checkback.protocol import HalfPosition, Topics
from checkback.topics import MOST_BYTES
from state import BUNDLE, Kind
from streaming.topic_rules import RANDOM_OR_KEYED, Headers, Record, Rules

_NO_RULES = Rules()


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
    """Builds the records of an outcome batch. What a topic does not take goes to ``cb.parked`` instead.

    ``partitions``: number of partitions of each topic that there is; ``rules``: what topics are known to refuse.
    """

    def __init__(self, topics: Topics, partitions: Mapping[str, int], rules: Rules = _NO_RULES) -> None:
        self._topics = topics
        self._partitions = partitions
        self._rules = rules
        self._without_rule = {name: count for name, count in partitions.items() if name not in rules.topics}
        # topics of our own that do not take everything: none, as a rule
        written = {topics.check, topics.parked, topics.rejected, topics.status}
        self._own = written - self._without_rule.keys()

    def build(self, batch: pa.RecordBatch) -> Iterator[Record]:
        """Records of one batch of outcomes (``OUTCOME_FIELDS`` and ``half_partition``), counts left out.

        Raises:
            OwnTopicError: one of our own topics is missing, or known to refuse a record.
        """
        records = self._records(batch)
        return self._refuse_own(records) if self._own else records

    def _refuse_own(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            why = self._refusal(record) if record.topic in self._own else None
            if why is not None:
                raise OwnTopicError(
                    f"{record.topic} refuses a record that the job must write there: {why}. Give it the "
                    f"configuration of 'checkback topics create' (max.message.bytes={MOST_BYTES}; compacted: only "
                    f"{self._topics.status}), let the job write to it, and start again: nothing is lost."
                )
            yield record

    def _records(self, batch: pa.RecordBatch) -> Iterator[Record]:
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
            named = (protocol.ID, tx_id.encode())
            record = Record(topic, partition, key, value, [named, *application_headers(headers)])
            # no call for those that nothing is known of: most of all
            plain = partition < self._without_rule.get(topic, RANDOM_OR_KEYED)
            reason = None if plain else self._refusal(record)
            if reason is None:
                yield record
            else:
                yield self._undeliverable(batch.slice(row, 1).to_pylist()[0], record.headers[1:], reason)

    def _refusal(self, record: Record) -> str | None:
        """Why this record cannot be delivered; None when nothing says so."""
        if record.partition < self._without_rule.get(record.topic, -1):
            return None
        count = self._partitions.get(record.topic)
        if count is None:
            return "there is no such topic"
        if record.partition >= count:
            return f"that topic has {count} partitions"
        return self._rules.refusal(record)

    def _bundle(self, row: dict[str, Any]) -> Iterator[Record]:
        """All messages of one transaction, in the order they were added; each has an id of its own."""
        common = application_headers(row["headers"])
        for number, message in enumerate(protocol.unpack(row["value"]), start=1):
            partition = RANDOM_OR_KEYED if message.partition is None else message.partition
            one = {**row, "tx_id": f"{row['tx_id']}#{number}", "topic": message.topic, "partition": partition}
            headers = [*message.headers, *common]
            named = (protocol.ID, one["tx_id"].encode())
            record = Record(message.topic, partition, message.key, message.value, [named, *headers])
            reason = self._refusal(record)
            if reason is None:
                yield record
            else:
                yield self._undeliverable({**one, "key": message.key, "value": message.value}, headers, reason)

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
        key, _, headers = request.to_record()
        return Record(self._topics.check, RANDOM_OR_KEYED, key, row["value"], list(headers))

    def _undeliverable(self, row: dict[str, Any], headers: Headers, why: str) -> Record:
        asked = f" partition {row['partition']}" if row["partition"] >= 0 else ""
        reason = f"{protocol.UNDELIVERABLE} {row['topic']}{asked}: {why}"
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
