"""A query's checkpoint folder, wherever Hadoop can reach it: what is in it, and whether it fits."""

import contextlib
import json
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError
from checkback.version import __version__
from streaming.batch.numbered_files import BATCHES, NumberedFiles
from streaming.batch.stores import in_store, send
from streaming.checkpoint.claimed_names import refuse_without_conditions
from streaming.checkpoint.durable import DurableFolder
from streaming.checkpoint.grown import GROWING, PARTITIONS, as_grown, growing_to, half_grown, ways_out
from streaming.checkpoint.offset_log import Entry, read_entry, shuffle_partitions

FACTS_FILE = "checkback.json"
# Their names alone say something: there is nothing in them that could be torn.
_FLOORS, _VERSIONS = NumberedFiles("checkback-floor-"), NumberedFiles("checkback-version-")
VERSION = 1
"""Of what a checkpoint's files mean. Raise it with each change that a program before it would take for something else,
or would stumble over in the midst of a batch; that of ``state/codec.py`` is such a one."""
_LATER = "checkback-later-"
_TOPIC_IDS = ("half_topic_id", "op_topic_id")


@dataclass(frozen=True)
class CheckpointFacts:
    """What must stay the same for the life of a checkpoint, but for the half partitions: they may become more."""

    segment_size: int
    state_partitions: int
    half_partitions: int
    topic_prefix: str
    half_topic_id: str = ""
    """Kafka's own id (KIP-516): another one when the topic was deleted and recreated. Empty: not known."""
    op_topic_id: str = ""


class Checkpoint:
    """The checkpoint folder of one query."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self.folder = folder
        self._spark = spark
        self._files = self._path(folder).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._io = jvm.org.apache.commons.io.IOUtils
        self._query_id: str | None = None
        where = str(self._files.makeQualified(self._path(folder)).toString())
        local = Path("/" + where.removeprefix("file:").lstrip("/")) if where.startswith("file:") else None
        self._durable = None if local is None else DurableFolder(local)

    def query_id(self) -> str:
        """The id of the query, which is written once for the life of the checkpoint.

        Raises:
            CheckpointMismatchError: the file with the id is torn.
        """
        if self._query_id is None:
            found = self._json("metadata").get("id")
            if not isinstance(found, str):
                raise self.torn("metadata")
            self._query_id = found
        return self._query_id

    def is_new(self) -> bool:
        """Whether it has no query id yet."""
        return not self._exists("metadata")

    def entry(self, batch: int) -> Entry:
        """The batch's entry in the offset log.

        Raises:
            CheckpointMismatchError: it is torn.
        """
        found = read_entry(batch, self.read(f"offsets/{batch}") or b"")
        if found is None:
            raise self.torn(f"offsets/{batch}")
        return found

    def read_to(self) -> dict[tuple[str, int], int]:
        """Before which place of each partition all has been taken in by batches that have ended; empty: none has.

        Raises:
            CheckpointMismatchError: the newest such batch's entry is torn.
        """
        committed = self.newest("commits")
        return {} if committed is None else self.entry(committed).read_to()

    def check(self, facts: CheckpointFacts, to_grow: int | None = None) -> None:
        """Compare a checkpoint with the settings and with Kafka, or write the facts and a query id into a new one.

        ``to_grow``: state partitions that it is about to get.

        Raises:
            CheckpointMismatchError: they differ, a later version of Checkback has continued the checkpoint, or it has
                begun to get other state partitions than these.
        """
        self._refuse_later_version()
        self.refuse_half_grown(to_grow)
        probe = f".checkback-{uuid.uuid4().hex}"
        self.write(probe, b"")  # a folder that cannot be written to is found now, and not in the midst of a batch
        self.remove(probe)
        if in_store(self.folder):
            refuse_without_conditions(self._spark, self.folder)
        if self._exists(FACTS_FILE):
            stored = self._json(FACTS_FILE)
            if not complete(stored):
                raise self.torn(FACTS_FILE)
            compare(self.folder, as_grown(stored, self.names("")), facts)
            self._refuse_other_partitions(facts.state_partitions)
        elif not self.is_new():
            raise CheckpointMismatchError(f"{self.folder} belongs to another Spark query: name an empty folder.")
        else:
            self.write(FACTS_FILE, json.dumps(asdict(facts)).encode())
        if self.is_new():
            # Spark would choose an id itself, only later: the claim in Kafka has to name it before a batch is run
            self.write("metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")).encode())

    def _refuse_other_partitions(self, partitions: int) -> None:
        """Whether the newest batch has left as many as the checkpoint says; torn files are for others to judge."""
        newest = self.newest("offsets")
        if newest is None or self.growing() is not None:
            return
        found = shuffle_partitions(self.read(f"offsets/{newest}") or b"")
        if found not in {None, partitions}:
            raise CheckpointMismatchError(
                f"The last batch in {self.folder} has {found} state partitions, and the checkpoint {partitions}: files "
                "of it are gone, or are another checkpoint's. Restore the folder from its newest copy, or name a new "
                "one ('checkback run --new-checkpoint'), which re-delivers everything that is still in the half topic."
            )

    def newest(self, log: str) -> int | None:
        """The highest number in ``offsets`` or ``commits``; None when there is none."""
        return max(BATCHES.numbers(self.names(log)), default=None)

    def floor(self) -> int:
        """The progress offset that every state partition has reached, as far as is remembered."""
        return max(_FLOORS.numbers(self.names("")), default=0)

    def remember_floor(self, floor: int) -> None:
        """Remember that every state partition has reached this progress offset.

        The name of an empty file says it, so that two drivers that come here at once do not disturb one another.
        """
        self._touch(_FLOORS.name(floor))
        for number in _FLOORS.numbers(self.names("")):
            if number < floor:
                self.remove(_FLOORS.name(number))

    def state_partitions(self) -> int:
        """How many it has.

        Raises:
            CheckpointMismatchError: it does not say.
        """
        stored = self._json(FACTS_FILE) if self._exists(FACTS_FILE) else {}
        found = as_grown(stored, self.names("")).get("state_partitions")
        if not isinstance(found, int):
            raise CheckpointMismatchError(
                f"{self.folder} is not the folder of a job that has run: name that in job.checkpoint."
            )
        return found

    def partitions_of_batch(self, batch: int) -> int:
        """How many the state has that a batch has left.

        Raises:
            CheckpointMismatchError: its entry is torn.
        """
        found = shuffle_partitions(self.read(f"offsets/{batch}") or b"")
        if found is None:
            raise self.torn(f"offsets/{batch}")
        return found

    def growing(self) -> int | None:
        """How many it is about to get; None: it is not growing."""
        return growing_to(self.names(""))

    def refuse_half_grown(self, partitions: int | None = None) -> None:
        """Whether it may be used, or grow to ``partitions``.

        Raises:
            CheckpointMismatchError: it has begun to get others.
        """
        growing = self.growing()
        if growing is not None and growing != partitions:
            todo = ways_out(growing, self.state_partitions())
            raise CheckpointMismatchError(
                f"{half_grown(self.folder, growing)}: no job starts before it has ended, {todo}."
            )

    def begin_growing(self, partitions: int) -> None:
        """From now on no job starts on it.

        Raises:
            CheckpointMismatchError: it has begun to get another number.
        """
        self.refuse_half_grown(partitions)
        self._touch(GROWING.name(partitions))
        self.refuse_half_grown(partitions)

    def end_growing(self, partitions: int) -> None:
        """It has them, and jobs may start."""
        self._touch(PARTITIONS.name(partitions))
        for number in PARTITIONS.numbers(self.names("")):
            if number != partitions:
                self.remove(PARTITIONS.name(number))
        self.remove(GROWING.name(partitions))

    def give_up_growing(self, partitions: int) -> None:
        """It stays as it was, and jobs may start."""
        self.remove(GROWING.name(partitions))

    def remembers_later(self, topic_id: str) -> bool:
        """Whether the forwarder of ``cb.later`` has stored offsets for all partitions of the topic with this id."""
        return self._exists(self._later(topic_id))

    def remember_later(self, topic_id: str) -> None:
        """Remember that it has. The name of an empty file says it, as that of :meth:`remember_floor`."""
        self._touch(self._later(topic_id))

    @staticmethod
    def _later(topic_id: str) -> str:
        return _LATER + topic_id.replace("/", "_").replace("+", "-")  # base 64

    def remember_version(self) -> None:
        """Remember that this program has continued it, once it is this run's: an earlier one must not any more."""
        if VERSION not in _VERSIONS.numbers(self.names("")):
            self._touch(_VERSIONS.name(VERSION))

    def _refuse_later_version(self) -> None:
        # of a checkpoint from before there were versions, nothing says so: it is the first
        version = max(_VERSIONS.numbers(self.names("")), default=VERSION)
        if version > VERSION:
            raise CheckpointMismatchError(
                f"{self.folder} was continued by a later Checkback: the checkpoint is of version {version}, and "
                f"Checkback {__version__} reads those up to {VERSION}. Start that Checkback again, or a later one. "
                "The way back is a copy of the folder from before it, or a new one ('checkback run --new-checkpoint'), "
                "which re-delivers everything that is still in the half topic."
            )

    def torn(self, name: str) -> CheckpointMismatchError:
        """The error for a file that is torn and cannot be done without."""
        return CheckpointMismatchError(
            f"{self.folder}/{name} is torn, as a power loss or a full disk leaves a file, and the job cannot continue "
            "without it: restore the folder from its newest copy, or name a new one ('checkback run "
            "--new-checkpoint'), which re-delivers everything that is still in the half topic."
        )

    def synchronise(self) -> None:
        """Return when all that is in the folder would outlive a power loss.

        Raises:
            OSError: the disk does not take it.
        """
        if self._durable is not None:
            self._durable.synchronise()

    def names(self, folder: str) -> list[str]:
        """Names of the files and folders in a folder of the checkpoint; none when it is not there."""
        if not self._exists(folder):
            return []
        return [str(found.getPath().getName()) for found in self._files.listStatus(self._at(folder))]

    def sizes(self, folder: str) -> dict[str, int]:
        """Name to bytes of the files in a folder of the checkpoint."""
        if not self._exists(folder):
            return {}
        return {
            str(found.getPath().getName()): int(found.getLen()) for found in self._files.listStatus(self._at(folder))
        }

    def read(self, name: str) -> bytes | None:
        """A file's bytes; None when its checksum says that they are not what was written."""
        try:
            with contextlib.closing(self._files.open(self._at(name))) as stream:
                return bytes(self._io.toByteArray(stream))
        except Py4JJavaError as error:
            if "ChecksumException" in str(error):
                return None
            raise

    def whole(self, name: str) -> bool:
        """Whether a file, of any size, is what was written; read inside Java."""
        if not self._files.getFileStatus(self._at(name)).getLen():
            return False
        try:
            with contextlib.closing(self._files.open(self._at(name))) as stream:
                self._io.consume(stream)
        except Py4JJavaError as error:
            if "ChecksumException" in str(error):
                return False
            raise
        return True

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        if in_store(self.folder):
            send(self._files, self._at(name), content)
            return
        folder, slash, file = name.rpartition("/")
        unfinished = self._at(f"{folder}{slash}.{file}.{uuid.uuid4().hex}.unfinished")
        with contextlib.closing(self._files.create(unfinished)) as stream:
            stream.write(content)
        if not self._files.rename(unfinished, self._at(name)):  # HDFS does not write over a file
            self.remove(name)
            if not self._files.rename(unfinished, self._at(name)):
                raise OSError(f"{self.folder}/{name} could not be written.")

    def remove(self, name: str) -> None:
        """Remove a file; harmless when it is not there."""
        self._files.delete(self._at(name), False)  # noqa: FBT003  (Hadoop's own: not recursive)

    def _touch(self, name: str) -> None:
        self._files.create(self._at(name), True).close()  # noqa: FBT003  (Hadoop's own: overwrite)

    def _at(self, name: str) -> Any:
        return self._path(f"{self.folder}/{name}")

    def _exists(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def _json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.read(name) or b"")
        except ValueError as error:
            raise self.torn(name) from error
        if not isinstance(found, dict):
            raise self.torn(name)
        return found


def compare(folder: str, stored: dict[str, Any], facts: CheckpointFacts) -> None:
    """Hold what a checkpoint says of itself against what holds now.

    Raises:
        CheckpointMismatchError: it was made under other settings, or for topics that are not there any more.
    """
    for name, now in asdict(facts).items():
        before = stored.get(name)
        if name in _TOPIC_IDS:
            if before and now and before != now:
                raise recreated(f"{facts.topic_prefix}{name.removesuffix('_topic_id')}")
        elif name == "half_partitions" and isinstance(before, int) and before <= now:
            continue  # nothing depends on their number
        elif name == "state_partitions" and before != now and isinstance(before, int):
            raise CheckpointMismatchError(
                f"The checkpoint {folder} has {before} state partitions, and job.state_partitions is {now}: set it to "
                f"{before}, or stop the job and give the checkpoint as many: 'checkback grow --state-partitions {now}'."
            )
        elif before != now:
            raise CheckpointMismatchError(
                f"The checkpoint {folder} was made with {name} = {json.dumps(before)}, now it is {json.dumps(now)}. "
                "It is fixed for the life of a checkpoint: set it back, or name a new checkpoint folder and start "
                "with 'checkback run --new-checkpoint', which re-delivers everything that is still in the half "
                "topic."
            )


def complete(stored: object) -> bool:
    """Whether it is all that a checkpoint says of itself; else it is torn."""
    names = {one.name for one in fields(CheckpointFacts)} - set(_TOPIC_IDS)
    return isinstance(stored, dict) and names <= stored.keys()


def recreated(topic: str) -> CheckpointMismatchError:
    """The error for a topic that was deleted and recreated under a checkpoint."""
    return CheckpointMismatchError(
        f"The topic {topic} was deleted and recreated since this checkpoint was begun: its offsets mean other records "
        "now, and what the old one still held is gone. Name a new checkpoint folder and start with "
        "'checkback run --new-checkpoint'; undecided messages of the old topic have to be sent again."
    )


def truncated(place: str) -> CheckpointMismatchError:
    """The error for a partition that has lost records at its end that the checkpoint has read."""
    return CheckpointMismatchError(
        f"Kafka's brokers have lost records at the end of {place} that this checkpoint has read; those written since "
        "have their offsets, and would never be read. Name a new checkpoint folder and start with 'checkback run "
        "--new-checkpoint', which re-delivers everything that is still in the half topic."
    )


def deleted(topic: str) -> CheckpointMismatchError:
    """The error for a topic that is gone."""
    return CheckpointMismatchError(
        f"The topic {topic} was deleted while the job ran, with what the job had not read yet. Create it again "
        "('checkback topics create'), name a new checkpoint folder and start with 'checkback run --new-checkpoint'; "
        "undecided messages have to be sent again."
    )
