"""A Delta Lake table: the rows of a batch are one commit of its log, with the batch's number in it."""

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError
from streaming.batch.batch import Batch
from streaming.batch.java_errors import could_not_take, first_line
from streaming.folders import Folder, open_folder


class DeltaTableDestination:
    """A Delta table.

    Exactly once: Delta keeps the highest ``txnVersion`` of each ``txnAppId`` in the table's log, and passes over a
    write whose version is not higher. Two drivers that commit at once are told apart by the log, too.
    """

    def __init__(self, name: str, spark: SparkSession, root: Folder) -> None:
        self._name = name
        self._spark = spark
        self.root = root

    def prepare(self) -> None:
        """Make the folder. The table is made by the first batch.

        Raises:
            ConfigurationError: that is not possible, the folder holds something else, or the session has no Delta.
        """
        names = open_folder(self._name, self.root)
        others = [name for name in names if not name.startswith(("_", "."))]
        if others and "_delta_log" not in names:
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self.root.uri} holds {others[0]} and is not a Delta table: name an empty "
                "folder."
            )
        if "DeltaSparkSessionExtension" not in (self._spark.conf.get("spark.sql.extensions", "") or ""):
            raise ConfigurationError(
                f"sinks.tables.{self._name}: the Spark session has no Delta Lake: build it with these settings."
            )

    def publish(self, batch: Batch, folder: str, files: list[str]) -> None:
        """Append a batch in one commit.

        Raises:
            DestinationError: that was not possible. When the answer to the commit was lost, everything may be visible:
                the next run finds out.
        """
        paths = [f"{self.root.uri}/{folder}/{file}" for file in files]
        literally = {"ignoreMissingFiles": "false", "__globPaths__": "false"}  # a name may look like a pattern
        try:
            rows = self._spark.read.options(**literally).parquet(*paths)
            write = rows.write.format("delta").mode("append")
            write.option("txnAppId", f"checkback-{batch.query_id}-{self._name}").option(
                "txnVersion", batch.number
            ).save(self.root.uri)
        except (PySparkException, Py4JError) as error:
            raise could_not_take(self._name, batch.number, first_line(error)) from error
