"""The task's half of tables: rows that are not for Kafka are taken out of the outcomes and staged as Parquet.

A staged file is nobody's until the driver publishes it, and the driver publishes those that a finished task names in
its report. What failed tasks leave behind is removed when the job starts the next time.
"""

import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from checkback.exceptions import DestinationError
from conf import KAFKA
from state import OutcomeKind
from streaming.batch.bundles import BundledMessage, bundled_messages
from streaming.batch.headers import application_headers, packed_headers
from streaming.batch.record import RANDOM_OR_KEYED
from streaming.folders import to_disk
from streaming.kafka_sink.content import Contents, left_out
from streaming.kafka_sink.holding import HELD_MARK, was_held
from streaming.tables.routes import Routes

_ROW_GROUP_BYTES = 16 * 1024 * 1024
_ROW_GROUP_ROWS = 100_000
_BY_LANE = pa.array([OutcomeKind.BY_LANE, OutcomeKind.BY_LANE_BUNDLE], pa.int8())
_DELIVERIES = pa.array([OutcomeKind.DELIVER, OutcomeKind.DELIVER_BUNDLE], pa.int8())
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


@dataclass(frozen=True)
class StagingPlan:
    """Where the tasks of one attempt at a batch put what tables get."""

    batch: int
    routes: Routes
    folders: Mapping[str, str]
    """Destination to the URI of a folder that is this attempt's alone."""
    stores: Mapping[str, str] = field(default_factory=dict)
    """Destination to what Arrow needs to reach its store: see :class:`~streaming.folders.Folder`."""


class StagedFile(NamedTuple):
    """A whole Parquet file of rows (``TABLE_SCHEMA``) for one destination."""

    destination: str
    file: str
    rows: int


def trial_rows() -> pa.RecordBatch:
    """A row with nulls, and two with all columns that differ in ``half`` alone.

    Texts are as long as ``docs/protocol.md`` allows, numbers as large as Kafka's.
    """
    row = {"id": "i" * 64 + "#1000000", "topic": "t" * 249, "producer_group": "g" * 255, "headers": [], "batch": 2**53}
    full = {"partition": 2**31 - 1, "key": b"", "value": b"", "headers": [{"key": "k", "value": b""}]}
    rows = (row, row | full, row | full)
    halves = [one | {"half": f"{2**31 - 1}:{2**63 - 1 - number}"} for number, one in enumerate(rows)]
    return pa.RecordBatch.from_pylist(halves, TABLE_SCHEMA)


def staged_trial(destination: str, file: str, store: str) -> StagedFile:
    """A file of :func:`trial_rows`, written as a task writes it.

    Raises:
        DestinationError: the folder cannot be reached or written to.
    """
    rows = _StagedRows(destination, file, store)
    rows.add(trial_rows())
    return rows.finish()


def file_system_of(uri: str, store: str = "") -> tuple[pa.fs.FileSystem, str]:
    """Arrow's file system for what Hadoop would reach under the URI, and the path in it."""
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme == "file":
        return pa.fs.LocalFileSystem(), (f"/{rest.lstrip('/')}" if colon else uri)
    host, slash, path = rest.removeprefix("//").partition("/")
    named = "s3" if scheme in {"s3a", "s3n"} else scheme
    return pa.fs.FileSystem.from_uri(f"{named}://{host}{slash}{quote(path, '/?=&')}{store}")  # Hadoop escapes nothing


class Staging:
    """The staged rows of one task."""

    def __init__(self, plan: StagingPlan, partition: int, contents: Contents | None = None) -> None:
        self._plan = plan
        self._contents = contents
        self._partition = partition
        self._open: dict[str, _StagedRows] = {}
        self.files: list[StagedFile] = []
        """Complete once the iterator that :meth:`take` gave has come to its end."""

    def take(self, outcomes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The outcomes that Kafka gets; rows for tables are staged while they pass.

        Memory: one row group for each destination.

        Raises:
            DestinationError: a destination's staging folder cannot be written to.
        """
        try:
            for piece in outcomes:
                by_lane, others = _parted(piece)
                yield from self._of_lanes(by_lane)
                for whole in self._whole(others):
                    rest = self._stage(whole)
                    if rest.num_rows:
                        yield rest
            # before Kafka has the batch: a disk that is full then costs nothing
            self.files = [rows.finish() for rows in self._open.values()]
        except BaseException:
            for rows in self._open.values():
                rows.discard()
            raise

    def _of_lanes(self, delivered: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Stage what the real topics have from lanes; what is left is to be told of content that cannot be had."""
        if delivered.num_rows:
            for whole in self._whole(delivered):
                rest = self._stage(whole)
                left = rest.filter(pc.invert(pc.is_in(rest.column("kind"), value_set=_DELIVERIES)))
                if left.num_rows:
                    yield left

    @property
    def counts(self) -> Counter[str]:
        """What became of messages here, and not in the state machine."""
        return self._contents.counts if self._contents else Counter()

    def _whole(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows, with content that was set aside where tables get it, and without bundles of which they get a part.

        What is for Kafka alone is read as it is written. Which table a message of several goes to is in the content.
        """
        if self._contents is None:
            yield unbundled(piece, self._plan.routes)
            return
        aside, kinds = left_out(piece), piece.column("kind").to_numpy()
        for_tables = aside & (kinds == OutcomeKind.DELIVER)
        if for_tables.any():
            topics = piece.column("topic").filter(pa.array(for_tables)).to_pylist()
            for_tables[for_tables] = [self._plan.routes.of_topic(topic) != (KAFKA,) for topic in topics]
        done = 0
        for at in [*np.flatnonzero(aside & (kinds == OutcomeKind.DELIVER_BUNDLE)).tolist(), piece.num_rows]:
            if at > done:
                for whole in self._contents.filled(piece.slice(done, at - done), for_tables[done:at]):
                    yield unbundled(whole, self._plan.routes)
            if at < piece.num_rows:
                yield from self._bundle(piece.slice(at, 1), self._contents)
            done = at + 1

    def _bundle(self, row: pa.RecordBatch, contents: Contents) -> Iterator[pa.RecordBatch]:
        for whole in contents.filled(row):
            for_kafka = whole.column("kind")[0].as_py() == OutcomeKind.DELIVER_BUNDLE
            apart = unbundled(whole, self._plan.routes)
            yield row if for_kafka and apart is whole else apart

    def _stage(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        # one that was held for its topic in Kafka has been in its tables since then
        held = pc.fill_null(pc.match_substring(piece.column("headers"), HELD_MARK), fill_value=False)
        if pc.any(held).as_py():
            held = pa.array([was_held(packed) for packed in piece.column("headers").to_pylist()])
        delivered = pc.and_not(pc.equal(piece.column("kind"), int(OutcomeKind.DELIVER)), held)
        topics = pc.unique(piece.column("topic").filter(delivered)).to_pylist()
        routed = {topic: self._plan.routes.of_topic(topic) for topic in topics}
        for destination in self._plan.folders:
            chosen = [topic for topic, to in routed.items() if destination in to]
            if chosen:
                rows = piece.filter(_of_topics(piece, delivered, chosen))
                self._rows_for(destination).add(table_rows(rows, self._plan.batch))
        elsewhere = [topic for topic, to in routed.items() if KAFKA not in to]
        return piece.filter(pc.invert(_of_topics(piece, delivered, elsewhere))) if elsewhere else piece

    def _rows_for(self, destination: str) -> "_StagedRows":
        if destination not in self._open:
            folder = self._plan.folders[destination]
            # a name of its own: another attempt of this task may still be writing
            file = f"{folder}/{self._partition:05d}-{uuid.uuid4().hex}.parquet"
            self._open[destination] = _StagedRows(destination, file, self._plan.stores.get(destination, ""))
        return self._open[destination]


def _parted(piece: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """What lanes have delivered, as deliveries, and all else."""
    kinds = piece.column("kind")
    chosen = pc.is_in(kinds, value_set=_BY_LANE)
    if not pc.any(chosen).as_py():
        return piece.slice(0, 0), piece
    by_lane = piece.filter(chosen)
    at = pc.index_in(by_lane.column("kind"), value_set=_BY_LANE)
    delivered = by_lane.set_column(
        piece.schema.get_field_index("kind"), piece.schema.field("kind"), _DELIVERIES.take(at)
    )
    return delivered, piece.filter(pc.invert(chosen))


def _of_topics(piece: pa.RecordBatch, delivered: pa.Array, topics: list[str]) -> pa.Array:
    return pc.and_(delivered, pc.is_in(piece.column("topic"), value_set=pa.array(topics, pa.string())))


class _StagedRows:
    """One file being written, in row groups."""

    def __init__(self, destination: str, file: str, store: str) -> None:
        self._destination = destination
        self._file = file
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = self._waiting_rows = self._rows = 0
        with self._explained():
            self._files, self._path = file_system_of(file, store)
            self._files.create_dir(self._path.rpartition("/")[0], recursive=True)
            self._writer: Any = pq.ParquetWriter(self._path, TABLE_SCHEMA, filesystem=self._files)

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        self._waiting_rows += rows.num_rows
        self._rows += rows.num_rows
        if self._bytes >= _ROW_GROUP_BYTES or self._waiting_rows >= _ROW_GROUP_ROWS:
            self._write()

    def finish(self) -> StagedFile:
        if self._waiting:
            self._write()
        with self._explained():
            self._writer.close()
            if isinstance(self._files, pa.fs.LocalFileSystem):
                to_disk(self._path)  # Spark's commit log may survive a loss of power: then the rows must, too
        return StagedFile(self._destination, self._file, self._rows)

    def discard(self) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
            self._files.delete_file(self._path)

    def _write(self) -> None:
        with self._explained():
            self._writer.write_table(pa.Table.from_batches(self._waiting, TABLE_SCHEMA))
        self._waiting, self._bytes, self._waiting_rows = [], 0, 0

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise DestinationError(
                f"Rows for destination {self._destination} cannot be staged in {self._file}: "
                f"{' '.join(str(error).split())}. Nothing is lost: fix it and start the job again."
            ) from error


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
