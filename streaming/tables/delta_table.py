"""A Delta Lake table: the rows of a batch are one commit of its log, with the batch's number in it."""

import json
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from checkback.exceptions import ConfigurationError
from streaming.batch.batch import Batch
from streaming.batch.java_errors import could_not_take, first_line
from streaming.folders import MARK, Folder, open_folder, opening, refuse_deleted
from streaming.tables.staging import TABLE_SCHEMA

_LOG = "_delta_log"
_RETENTION = "delta.setTransactionRetentionDuration"
_CHECK, _FOR_GOOD = "delta.constraints.", "A message that violates it would stop the job for good"
_GENERATED = {"delta.generationExpression", "delta.identity.start"}
_NO_FOLDERS = ("key", "value", "producer_group")  # bytes, and text that is longer than a file's name
_NULLS = ("partition", "key", "value")
_NEWEST_ENTRIES = 100
"""Looked through for a commit that was just made: other processes may have added some behind it."""


class DeltaTableDestination:
    """A Delta table.

    Exactly once: Delta keeps the highest ``txnVersion`` of each ``txnAppId`` in the table's log, and passes over a
    write whose version is not higher. Two drivers that commit at once are told apart by the log, too.

    Delta finds out whether an entry of its log exists and then renames its own to that name. On a local disk and in S3
    those are two steps, so another process may replace an entry. Each commit is therefore read back. It is then made to
    survive a loss of power, because its staged rows are removed next.
    """

    def __init__(self, name: str, spark: SparkSession, root: Folder) -> None:
        self._name = name
        self._spark = spark
        self.root = root

    def prepare(self) -> bool:
        """Make the folder. The table is made by the first batch.

        Raises:
            ConfigurationError: that is not possible, the folder holds something else, or the session has no Delta.
        """
        names = open_folder(self._name, self.root)
        others = [name for name in names if not name.startswith(("_", "."))]
        if others and _LOG not in names:
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self.root.uri} holds {others[0]} and is not a Delta table: name an empty "
                "folder."
            )
        if "DeltaSparkSessionExtension" not in (self._spark.conf.get("spark.sql.extensions", "") or ""):
            raise ConfigurationError(
                f"sinks.tables.{self._name}: the Spark session has no Delta Lake: build it with these settings."
            )
        try:
            problem = self._unfit() if _LOG in names else ""
        except (PySparkException, Py4JError) as error:
            problem = f"cannot be used: {first_line(error)}"
            if "DELTA_UNSUPPORTED_FEATURES" not in problem and "DELTA_INVALID_PROTOCOL" not in problem:
                raise
        if problem:
            raise ConfigurationError(f"sinks.tables.{self._name}: the table in {self.root.uri} {problem}.")
        with opening(self._name, self.root.uri):
            self.root.make(MARK)
        return _LOG in names or MARK in names

    def _unfit(self) -> str:
        """Why batches cannot be appended to the table that is there; empty: they can."""
        snapshot = self._opened()
        snapshot.deltaLog().protocolWrite(snapshot.protocol())  # raises what a commit would
        return _refusing_property(snapshot.metadata()) or _unfit_column(snapshot.metadata())

    def publish(self, batch: Batch, folder: str, files: list[str]) -> None:
        """Append a batch in one commit.

        Raises:
            DestinationError: that was not possible. When the answer to the commit was lost, everything may be visible:
                the next run finds out.
        """
        paths = [f"{self.root.uri}/{folder}/{file}" for file in files]
        literally = {"ignoreMissingFiles": "false", "__globPaths__": "false"}  # a name may look like a pattern
        try:
            refuse_deleted(self.root)
            rows = self._spark.read.options(**literally).parquet(*paths)
            write = rows.write.format("delta").mode("append")
            application = f"checkback-{batch.query_id}-{self._name}"
            write.option("txnAppId", application).option("txnVersion", batch.number).save(self.root.uri)
            settled = self._settle(application, batch.number) or self._has(application, batch.number)
        except (PySparkException, Py4JError, OSError) as error:
            raise could_not_take(self._name, batch.number, first_line(error)) from error
        if not settled:
            problem = "its commit is not in the table's log: another process that wrote to the table has replaced it"
            raise could_not_take(self._name, batch.number, problem)

    def _settle(self, application: str, number: int) -> bool:
        """Whether the batch is among the newest entries of the log; its files then survive a loss of power."""
        names = self.root.children(_LOG)
        entries = sorted((name for name in names if name.endswith(".json") and name[:-5].isdigit()), reverse=True)
        for entry in entries[:_NEWEST_ENTRIES]:
            actions = [json.loads(line) for line in self.root.read(f"{_LOG}/{entry}").splitlines()]
            txns = [action["txn"] for action in actions if "txn" in action]
            if any((txn["appId"], txn["version"]) == (application, number) for txn in txns):
                files = [unquote(action["add"]["path"]) for action in actions if "add" in action]
                entry_files = [f"{_LOG}/{name}" for name in names if name.lstrip(".").startswith(entry[:-5])]
                self.root.settle([*files, *entry_files])
                return True
        return False

    def _has(self, application: str, number: int) -> bool:
        """Whether the log has this batch or a later one."""
        versions = self._opened().transactions()
        return bool(versions.contains(application) and versions.apply(application) >= number)

    def _opened(self) -> Any:
        """Delta's snapshot of the table, as a process that opens it now reads it."""
        jvm: Any = self._spark.sparkContext._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        table = log.forTable(self._spark._jsparkSession, self.root.uri)  # noqa: SLF001  (PySpark has no other way to it)
        return table.unsafeVolatileSnapshot()


def _refusing_property(metadata: Any) -> str:
    """What is wrong with a table's properties or partitions; empty: nothing."""
    properties = metadata.configuration()
    if properties.contains(_RETENTION):
        return f"has the property {_RETENTION}, after which a repeated batch would be there twice: remove it"
    for name in str(properties.keys().mkString("\n")).split("\n"):
        if name.startswith(_CHECK):
            return f"has the constraint {name.removeprefix(_CHECK)}: {properties.apply(name)}. {_FOR_GOOD}: drop it"
    unfit = [name for name in str(metadata.partitionColumns().mkString("\n")).split("\n") if name in _NO_FOLDERS]
    return f"is partitioned by {unfit[0]}, but no folder's name can hold each {unfit[0]}" if unfit else ""


def _unfit_column(metadata: Any) -> str:
    """What is wrong with a table's columns; empty: nothing."""
    columns = {column.name.lower(): column for column in StructType.fromJson(json.loads(metadata.schemaString()))}
    ruled = [column.name for column in columns.values() if "delta.invariants" in column.metadata]
    for wanted in from_arrow_schema(TABLE_SCHEMA):
        column = columns.pop(wanted.name, None)
        kind = wanted.dataType.simpleString()
        if column is None or column.dataType.simpleString() != kind:
            return f"has no column {wanted.name} of the type {kind}"
        if wanted.name in _NULLS and not column.nullable:
            return f"refuses nulls in its column {wanted.name}"
        if not {"__CHAR_VARCHAR_TYPE_STRING", *_GENERATED}.isdisjoint(column.metadata):
            ruled.append(column.name)
    if ruled:
        return f"has its own rule for the column {ruled[0]} (a length, an expression): remove the rule"
    filled = {"CURRENT_DEFAULT", *_GENERATED}
    needed = [name for name, column in columns.items() if not column.nullable and filled.isdisjoint(column.metadata)]
    return f"has a column {needed[0]} that is NOT NULL and not the job's" if needed else ""
