"""Reads a query's checkpoint folder, wherever Hadoop can reach it, and refuses one that does not fit."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError

_FACTS_FILE = "checkback.json"


@dataclass(frozen=True)
class CheckpointFacts:
    """What must stay the same for the life of a checkpoint."""

    segment_size: int
    state_partitions: int
    half_partitions: int
    topic_prefix: str


class Checkpoint:
    """The checkpoint folder of one query."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (the only way to Hadoop's file systems)
        self._path = jvm.org.apache.hadoop.fs.Path
        self._folder = folder
        self._files = self._path(folder).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
        self._read_all = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._query_id: str | None = None

    def query_id(self) -> str:
        """The id of the query, which Spark writes once for the life of the checkpoint."""
        if self._query_id is None:
            self._query_id = str(json.loads(self._read("metadata"))["id"])
        return self._query_id

    def entry_hash(self, batch: int) -> str:
        """SHA-256 of the batch's entry in the offset log: offsets, watermark and batch time."""
        return hashlib.sha256(self._read(f"offsets/{batch}")).hexdigest()

    def check(self, facts: CheckpointFacts, now_ms: int, clock_tolerance_ms: int) -> None:
        """Compare a checkpoint with the settings, or write the facts into a new one.

        Raises:
            CheckpointMismatchError: they differ, or the clock is behind the checkpoint's by more than is tolerated.
        """
        if self._exists(_FACTS_FILE):
            self._compare(json.loads(self._read(_FACTS_FILE)), facts)
        elif self._exists("metadata"):
            raise CheckpointMismatchError(f"{self._folder} belongs to another Spark query: name an empty folder.")
        else:
            self._write(_FACTS_FILE, json.dumps(asdict(facts)).encode())
        last_ms = self._last_batch_ms()
        if last_ms - now_ms > clock_tolerance_ms:
            raise CheckpointMismatchError(
                f"This machine's clock is {(last_ms - now_ms) / 1000:.0f} s behind the checkpoint's last batch, more "
                f"than job.clock_tolerance: Spark would drop new records as late. Set the clock, then start again."
            )

    def _compare(self, stored: dict[str, Any], facts: CheckpointFacts) -> None:
        for name, now in asdict(facts).items():
            if stored.get(name) != now:
                raise CheckpointMismatchError(
                    f"The checkpoint {self._folder} was made with {name} = {stored.get(name)}, now it is {now}. "
                    "It is fixed for the life of a checkpoint: set it back, or name a new checkpoint folder."
                )

    def _last_batch_ms(self) -> int:
        if not self._exists("offsets"):
            return 0
        names = [status.getPath().getName() for status in self._files.listStatus(self._path(f"{self._folder}/offsets"))]
        numbers = [int(name) for name in names if name.isdigit()]
        if not numbers:
            return 0
        # line 1 is the version, line 2 the batch's metadata
        return int(json.loads(self._read(f"offsets/{max(numbers)}").splitlines()[1])["batchTimestampMs"])

    def _exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(f"{self._folder}/{name}")))

    def _read(self, name: str) -> bytes:
        stream = self._files.open(self._path(f"{self._folder}/{name}"))
        try:
            return bytes(self._read_all(stream))
        finally:
            stream.close()

    def _write(self, name: str, content: bytes) -> None:
        stream = self._files.create(self._path(f"{self._folder}/{name}"))
        try:
            stream.write(content)
        finally:
            stream.close()
