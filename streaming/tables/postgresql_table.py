"""A table in PostgreSQL, by JDBC: the rows of a batch and the note that they are in, in one database transaction."""

import contextlib
import hashlib
import json
import logging
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from checkback.exceptions import CheckbackError, ConfigurationError, DestinationError
from conf import PostgresqlTable
from streaming.batch.batch import Batch
from streaming.batch.java_errors import could_not_take, first_line
from streaming.folders import Folder
from streaming.tables.staging import file_system_of, trial_rows

_LOGGER = logging.getLogger(__name__)
_CHUNK_BYTES = 4 * 1024 * 1024
_BEFORE_ANY = -1

# Those of the URL go before these. Nothing here waits for ever: a job that stands still says nothing.
_CONNECTION = {
    "connectTimeout": "10",
    "socketTimeout": "600",
    "tcpKeepAlive": "true",
    "ApplicationName": "checkback",
    "logServerErrorDetail": "false",  # a detail holds ids, keys and values, which belong in no log
}

# A driver that was paused in its transaction holds the lock on its progress: the server ends it, the next one waits.
# A server that answers before a commit is on its disk may lose it, and the staged rows are removed after the answer.
_SESSION = """
SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '90s'; SET TimeZone = 'UTC';
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'
"""

# SQLSTATEs that may pass with nothing changed: no connection, a pooler without its server (08P01), read-only after a
# fail-over, too many connections, starting up, locks, errors of a disk
_TRANSIENT = ("08001", "08003", "08006", "08P01", "25006", "40", "53", "55P03", "57", "58")
KEY = ("id", "half")
"""A place has one half message, and the messages of one half message have ids of their own. The id comes first so that
people who look for one find it by the key's index."""

UNIQUE_INDEXES = """
SELECT x.relname, coalesce(c.contype::text, ''), array_to_string(ARRAY(
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY a.attname), ',')
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid = to_regclass(?) AND i.indisunique ORDER BY x.relname
"""
SOURCE = "checkback-source"  # in place of a query's id: that row has the half topic of a table's rows, as a number
_SOURCE = f"""(query, destination, batch)
SELECT '{SOURCE}', n.nspname || '.' || c.relname, ? FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(?) ON CONFLICT (query, destination) DO UPDATE SET batch = p.batch RETURNING destination, batch
"""  # noqa: S608  (a constant)
COLUMNS = {
    "id": "text",
    "topic": "text",
    "partition": "int",
    "key": "bytea",
    "value": "bytea",
    "headers": "jsonb",
    "producer_group": "text",
    "half": "text",
    "batch": "bigint",
}
"""Columns of ``TABLE_SCHEMA`` with PostgreSQL's types."""


class PostgresqlDestination:
    """A table whose key is ``id`` and ``half``, and one with the newest batch of each query.

    Exactly once: the newest batch is locked, compared and moved on in the transaction that writes the rows. A row
    whose id and place are there is replaced, so messages that a new checkpoint delivers again are there once, too.
    """

    def __init__(self, name: str, spark: SparkSession, root: Folder, settings: PostgresqlTable, source: str) -> None:
        self._name, self._source = name, source
        self._note = f"checkback-committed-{name}.json"  # in the checkpoint folder: the newest batch that is committed
        self._jvm: Any = spark.sparkContext._jvm
        self.root = root
        self._settings = settings
        schema, dot, _ = settings.table.rpartition(".")
        progress = settings.progress_table
        self._table = _quoted(settings.table)
        # beside the table, unless it says where
        self._progress = _quoted(progress if "." in progress else f"{schema}{dot}{progress}")

    def prepare(self) -> bool:
        """Make the tables that are missing, and write rows as long as the protocol allows, which are rolled back.

        Raises:
            ConfigurationError: wrong address, user or password, no right to something, or a table of another shape.
            DestinationError: the database cannot be reached now.
        """
        try:
            with self._connection() as connection:
                self._refuse_another_encoding(connection)
                was_there = self._create_missing(connection)
                self._refuse_another_key(connection)
                self._write(connection, Batch("", 0, "", every_partition_writes=False), [trial_rows()])
                connection.rollback()
                self._refuse_another_source(connection)
                return was_there
        except Py4JJavaError as error:
            say: type[CheckbackError] = DestinationError if _may_pass(error) else ConfigurationError
            raise say(
                f"sinks.tables.{self._name}: {self._settings.url} cannot be used: {first_line(error)}."
            ) from error

    def publish(self, batch: Batch, folder: str, files: list[str]) -> None:
        """Write a batch.

        1. The query's newest batch is locked. When it is this one or a later one there is nothing to do.
        2. The rows go into a temporary table, as COPY, in chunks.
        3. From there into the table, where a row of the same id and half message is replaced.
        4. The newest batch is moved on, and all is committed.

        Raises:
            DestinationError: that was not possible; nothing is visible. When the connection broke during the commit,
                everything may be: the next run finds out in step 1.
        """
        uris = [f"{self.root.uri}/{folder}/{file}" for file in files]
        try:
            with self._connection() as connection:
                if self._write(connection, batch, _chunks(uris, self.root.store)):
                    connection.commit()
            self.root.write(self._note, json.dumps([batch.query_id, batch.number]).encode())
        except (Py4JJavaError, OSError, pa.ArrowException) as error:
            raise could_not_take(self._name, batch.number, first_line(error)) from error

    def _write(self, connection: Any, batch: Batch, chunks: Iterable[pa.RecordBatch]) -> bool:
        """Steps 1 to 4 without the commit; False when the batch is in already."""
        with self._statement(connection, self._insert_progress()) as note:  # 1
            note.setString(1, batch.query_id)
            note.setString(2, self._name)
            note.executeUpdate()
        if self._newest(connection, batch) >= batch.number:
            return False
        types = ", ".join(f'"{column}" {kind}' for column, kind in COLUMNS.items())
        names = ", ".join(f'"{column}"' for column in COLUMNS)
        with self._statement(connection, f"CREATE TEMP TABLE checkback_rows ({types}) ON COMMIT DROP") as create:
            create.executeUpdate()
        copies = connection.getCopyAPI()  # 2
        for chunk in chunks:
            lines = self._jvm.java.io.ByteArrayInputStream(copy_lines(chunk))
            copies.copyIn(f"COPY pg_temp.checkback_rows ({names}) FROM STDIN (FORMAT csv)", lines)
        with self._statement(connection, self._upsert(names)) as upsert:  # 3
            written = int(upsert.executeUpdate())
        rows = int(self._value(connection, "SELECT count(DISTINCT (id, half)) FROM pg_temp.checkback_rows"))
        if written < rows:
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self._settings.url}: {self._table} took {written} of {rows} rows. A "
                "trigger, rule or policy drops rows: remove it, and filter in a view."
            )
        move_on = f"UPDATE {self._progress} SET batch = ? WHERE query = ? AND destination = ?"  # noqa: S608  (as below)
        with self._statement(connection, move_on) as moved:  # 4
            moved.setLong(1, batch.number)
            moved.setString(2, batch.query_id)
            moved.setString(3, self._name)
            moved.executeUpdate()
        return True

    def _insert_progress(self) -> str:
        values = f"INSERT INTO {self._progress} (query, destination, batch) VALUES (?, ?, {_BEFORE_ANY})"  # noqa: S608  (as below)
        return f"{values} ON CONFLICT (query, destination) DO NOTHING"

    def _newest(self, connection: Any, batch: Batch) -> int:
        query = f"SELECT batch FROM {self._progress} WHERE query = ? AND destination = ? FOR UPDATE"  # noqa: S608  (quoted)
        newest = int(self._value(connection, query, batch.query_id, self._name))
        query, committed = json.loads(self.root.read(self._note)) if self.root.exists(self._note) else ("", _BEFORE_ANY)
        if query == batch.query_id and newest < committed <= batch.number:
            _LOGGER.error(
                "The database of destination %s has lost batches after %d, up to %d, which it had committed. Check for "
                "a failover to a replica without them. Their messages are in cb.half.",
                *(self._name, newest, committed),
            )
        return newest

    def _upsert(self, names: str) -> str:
        key = ", ".join(KEY)
        replaced = ", ".join(f'"{column}" = excluded."{column}"' for column in COLUMNS if column not in KEY)
        return (
            f"INSERT INTO {self._table} ({names}) "  # noqa: S608  (identifiers, quoted)
            f"SELECT DISTINCT ON ({key}) {names} FROM pg_temp.checkback_rows "
            f"ON CONFLICT ({key}) DO UPDATE SET {replaced}"
        )

    def _refuse_another_encoding(self, connection: Any) -> None:
        if (encoding := self._value(connection, "SHOW server_encoding")) != "UTF8":
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self._settings.url} has the encoding {encoding}, which cannot hold every "
                "message: name a database with UTF8."
            )

    def _refuse_another_key(self, connection: Any) -> None:
        with self._statement(connection, UNIQUE_INDEXES) as asked:
            asked.setString(1, self._table)
            found = asked.executeQuery()
            indexes = []
            while found.next():
                indexes.append(UniqueIndex(*(str(found.getString(column)) for column in (1, 2, 3))))
        problem = key_problem(self._table, indexes)
        if problem is not None:
            raise ConfigurationError(f"sinks.tables.{self._name}: {self._settings.url}: {problem}")

    def _refuse_another_source(self, connection: Any) -> None:
        """Positions of half messages are unique in one cluster and prefix only, so another's rows would be replaced."""
        own = int.from_bytes(hashlib.sha256(self._source.encode()).digest()[:8], "big", signed=True)
        with self._statement(connection, f"INSERT INTO {self._progress} AS p {_SOURCE}") as claim:
            claim.setLong(1, own)
            claim.setString(2, self._table)
            row = claim.executeQuery()
            row.next()
            table, owner = str(row.getString(1)), int(row.getLong(2))
        connection.commit()
        if owner != own:
            forget = f"DELETE FROM {self._progress} WHERE query = '{SOURCE}' AND destination = '{table}';"  # noqa: S608  (for people)
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self._settings.url}: {table} belongs to a job with another half topic "
                f"than {self._source}. Name another table. To hand this one over, stop that job and run: {forget}"
            )

    def _create_missing(self, connection: Any) -> bool:
        # of several starts at once the others wait; a number of ours
        self._value(connection, "SELECT 1 FROM pg_advisory_xact_lock(7239414)")
        # not IF NOT EXISTS, which asks for the right to create also when there is nothing to
        columns = ", ".join(f'"{column}" {kind}' for column, kind in COLUMNS.items())
        progress = "query text, destination text, batch bigint NOT NULL, PRIMARY KEY (query, destination)"
        there = []
        for table, shape in ((self._table, f"{columns}, PRIMARY KEY ({', '.join(KEY)})"), (self._progress, progress)):
            there.append(self._value(connection, "SELECT to_regclass(?) IS NOT NULL", table) == "t")
            if not there[-1]:
                with self._statement(connection, f"CREATE TABLE {table} ({shape})") as create:
                    create.executeUpdate()
        connection.commit()
        return there[0]

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        properties = self._jvm.java.util.Properties()
        given = {"user": self._settings.user, "password": self._settings.password.get_secret_value()}
        for key, value in {**_CONNECTION, **{key: value for key, value in given.items() if value}}.items():
            properties.setProperty(key, value)
        driver = self._jvm.org.postgresql.Driver
        if isinstance(driver, JavaPackage):
            raise ConfigurationError(
                f"sinks.tables.{self._name}: the Spark session has no PostgreSQL driver: build it with these settings."
            )
        # not by way of DriverManager, which knows only drivers of the class loader that calls it
        connection = driver().connect(self._settings.url, properties)
        try:
            connection.setAutoCommit(False)
            with self._statement(connection, _SESSION) as session:
                session.execute()
            connection.commit()
            yield connection
        finally:
            with contextlib.suppress(Py4JJavaError):
                connection.close()  # what was not committed is rolled back

    def _value(self, connection: Any, query: str, *parameters: str) -> str:
        """Of the one row's first column."""
        with self._statement(connection, query) as statement:
            for number, parameter in enumerate(parameters, 1):
                statement.setString(number, parameter)
            row = statement.executeQuery()
            row.next()
            return str(row.getString(1))

    @staticmethod
    @contextlib.contextmanager
    def _statement(connection: Any, text: str) -> Iterator[Any]:
        statement = connection.prepareStatement(text)
        try:
            yield statement
        finally:
            with contextlib.suppress(Py4JJavaError):
                statement.close()


def _may_pass(error: Py4JJavaError) -> bool:
    try:
        return str(error.java_exception.getSQLState()).startswith(_TRANSIENT)
    except Py4JError:  # not the database's
        return False


def _quoted(name: str) -> str:
    return ".".join(f'"{part}"' for part in name.split("."))


def _chunks(uris: list[str], store: str) -> Iterator[pa.RecordBatch]:
    """Rows of staged files, in pieces of some megabytes."""
    for uri in uris:
        files, path = file_system_of(uri, store)
        with files.open_input_file(path) as source:
            file = pq.ParquetFile(source)
            for group in range(file.num_row_groups):  # else Arrow keeps all groups until the end of the file
                for rows in file.iter_batches(batch_size=10_000, row_groups=[group]):
                    step = max(1, rows.num_rows * _CHUNK_BYTES // max(1, rows.nbytes))
                    for start in range(0, rows.num_rows, step):
                        yield rows.slice(start, step)


class UniqueIndex(NamedTuple):
    """A row of ``UNIQUE_INDEXES``."""

    name: str
    constraint: str
    """``p`` of a primary key, ``u`` of a unique constraint, empty of an index alone."""
    columns: str
    """Their names, sorted, with commas."""


def key_problem(table: str, indexes: Sequence[UniqueIndex]) -> str | None:
    """What is wrong with the keys of a (quoted) table, with the statement that corrects it; or None."""
    wanted = ",".join(sorted(KEY))
    by_id = [one for one in indexes if one.columns == KEY[0]]
    changes = [f'DROP CONSTRAINT "{one.name}"' for one in by_id if one.constraint]
    if not any(one.columns == wanted for one in indexes):
        primary = any(one.constraint == "p" and one not in by_id for one in indexes)
        changes.append(f"ADD {'UNIQUE' if primary else 'PRIMARY KEY'} ({', '.join(KEY)})")
    schema = table.rpartition(".")[0]
    drops = [f'DROP INDEX {f"{schema}." if schema else ""}"{one.name}"' for one in by_id if not one.constraint]
    statements = [*drops, *([f"ALTER TABLE {table} {', '.join(changes)}"] if changes else [])]
    if not statements:
        return None
    what = (
        "is unique by id alone, so that messages of two producer groups with the same id cannot both be there"
        if by_id
        else "has no unique key of id and half"
    )
    return f"the table {table} {what}. Run this, as its owner, and start again: {'; '.join(statements)};"


def copy_lines(rows: pa.RecordBatch) -> bytes:
    r"""Rows (``TABLE_SCHEMA``) for ``COPY ... FROM STDIN (FORMAT csv)``, in the order of :data:`COLUMNS`.

    CSV, each field quoted, nulls bare. PostgreSQL keeps no NUL character in text. Ids, groups and names of headers may
    have one in Kafka; it is written as the six characters ``\u0000``.
    """
    columns = [[_SPELLED[kind](one) for one in rows.column(name).to_pylist()] for name, kind in COLUMNS.items()]
    return "".join(",".join(fields) + "\n" for fields in zip(*columns, strict=True)).encode()


def _text(text: str) -> str:
    return '"' + text.replace("\0", "\\u0000").replace('"', '""') + '"'


def _bytes(content: bytes | None) -> str:
    return "" if content is None else f"\\x{content.hex()}"


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _headers(headers: list[dict[str, Any]]) -> str:
    """A list, since order and repeated names count; values in base64, since they are bytes."""
    if not headers:
        return "[]"
    spelled = [
        {
            "key": header["key"].replace("\0", "\\u0000"),
            "value": None if header["value"] is None else b64encode(header["value"]).decode(),
        }
        for header in headers
    ]
    return _text(json.dumps(spelled, ensure_ascii=False))


_SPELLED: dict[str, Any] = {"text": _text, "bytea": _bytes, "int": _number, "bigint": _number, "jsonb": _headers}
