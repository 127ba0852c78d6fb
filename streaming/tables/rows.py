"""Committed messages as rows of a table: the columns that every destination but Kafka has."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conf import KAFKA
from state import OutcomeKind
from streaming.batch.bundles import BundledMessage, bundled_messages
from streaming.batch.headers import application_headers, packed_headers
from streaming.batch.record import RANDOM_OR_KEYED
from streaming.tables.routes import Routes

TABLE_SCHEMA = pa.schema(
    {
        "id": pa.string(),  # the transaction's, or id#n for the n-th of several messages
        "topic": pa.string(),
        "partition": pa.int32(),  # null: none was asked for
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),  # the application's
        "producer_group": pa.string(),
        "half": pa.string(),  # partition:offset of the half message
        "batch": pa.int64(),  # of the job that wrote it
    }
)


def table_rows(delivered: pa.RecordBatch, batch: int) -> pa.RecordBatch:
    """Rows of a table (``TABLE_SCHEMA``) of outcomes that are all of the kind DELIVER."""
    partition = delivered.column("partition")
    offset = pc.cast(delivered.column("half_offset"), pa.string())
    columns = {
        "id": delivered.column("transaction_id"),
        "topic": delivered.column("topic"),
        "partition": pc.if_else(pc.equal(partition, RANDOM_OR_KEYED), pa.scalar(None, pa.int32()), partition),
        "key": delivered.column("key"),
        "value": delivered.column("value"),
        "headers": _headers(delivered.column("headers")),
        "producer_group": delivered.column("group"),
        "half": pc.binary_join_element_wise(pc.cast(delivered.column("half_partition"), pa.string()), offset, ":"),
        "batch": pa.array([batch] * delivered.num_rows, pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in TABLE_SCHEMA.names], schema=TABLE_SCHEMA)


def _headers(packed: pa.Array) -> pa.Array:
    kind = TABLE_SCHEMA.field("headers").type
    return pa.array([application_headers(one) if one else [] for one in packed.to_pylist()], kind)


def unbundled(outcomes: pa.RecordBatch, routes: Routes) -> pa.RecordBatch:
    """The same outcomes, with a row for each message of those bundles of which a message goes to a table.

    A bundle is delivered by its position, message by message; taking some out would give the others new ids.
    """
    kinds = outcomes.column("kind")
    bundles = pc.indices_nonzero(pc.equal(kinds, int(OutcomeKind.DELIVER_BUNDLE))).to_pylist()
    pieces: list[pa.RecordBatch] = []
    done = 0
    for at in bundles:
        (row,) = outcomes.slice(at, 1).to_pylist()
        messages = list(bundled_messages(row))
        if any(routes.of_topic(message.topic) != (KAFKA,) for message in messages):
            pieces += [outcomes.slice(done, at - done), _rows_of_bundle(row, messages, outcomes.schema)]
            done = at + 1
    return pa.concat_batches([*pieces, outcomes.slice(done)]) if pieces else outcomes


def _rows_of_bundle(row: dict[str, Any], messages: list[BundledMessage], schema: pa.Schema) -> pa.RecordBatch:
    kind = int(OutcomeKind.DELIVER)
    rows = [
        {**row, **message._asdict(), "kind": kind, "headers": packed_headers(message.headers)} for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
