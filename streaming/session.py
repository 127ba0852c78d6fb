"""The Spark session the query runs in."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError
from checkback.local import spark_jars, use_java
from checkback.local.folders import DIRS, scratch_folders, take_scratch
from checkback.local.jars import STORES
from conf import PostgresqlTable, Settings
from conf.log_lines import is_for_people
from streaming.batch.stores import scheme_of
from streaming.checkpoint.place import on_this_machine
from streaming.class_archive import archive_options
from streaming.fairness.state_size import MANY, ROWS
from streaming.java_classes import compiled, options_for_user

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_SOURCES = "org.apache.spark.sql.execution.datasources"

# What Spark need not do to plan a batch, the same query for each one: docs/decisions/0032
EXCLUDED_RULES = (
    f"{_OPTIMIZER}.CollapseProject",
    f"{_OPTIMIZER}.CombineUnions",
    f"{_OPTIMIZER}.EliminateMapObjects",
    f"{_OPTIMIZER}.FoldablePropagation",
    f"{_OPTIMIZER}.OptimizeCsvJsonExprs",
    f"{_OPTIMIZER}.OptimizeOneRowRelationSubquery",
    f"{_OPTIMIZER}.RemoveRedundantAliases",
    f"{_OPTIMIZER}.SimplifyBinaryComparison",
    f"{_OPTIMIZER}.UnwrapCastInBinaryComparison",
    f"{_SOURCES}.PruneFileSourcePartitions",
    f"{_SOURCES}.PushVariantIntoScan",
    f"{_SOURCES}.SchemaPruning",
)
"""They take a quarter of the optimizer's time and change nothing in our plans. None is needed for a right answer: Spark
does not let those be excluded."""

PLANNING = {
    "spark.sql.optimizer.excludedRules": ",".join(EXCLUDED_RULES),
    # looks at the whole plan after each rule: for who writes rules
    "spark.sql.lightweightPlanChangeValidation": "false",
    # the plan as text, for Spark's own pages, which are off; "formatted" writes all of it twice
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.constraintPropagation.enabled": "false",
}

# The planner has so much code that on two cores the JIT is busy with it for minutes, while batches wait. C2 compiles
# what runs four times as often as it would otherwise take; C1, which is cheap, as early as ever.
COMPILING = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
_CLASS = "checkback.WholeFiles"

WHOLE_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": _CLASS,
    "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
    # Hadoop's own choice reads ahead, and in other threads: good for tables
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}
"""Of Spark, for a checkpoint in an object store; it is not safe without them."""
PATIENCE = {
    "spark.hadoop.fs.s3a.connection.timeout": "20s",
    "spark.hadoop.fs.s3a.connection.request.timeout": "30s",
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
}
"""Of a store that takes what it is sent, and says nothing: Hadoop's own are 200 s, 6 times 8 of them."""
_LOGGER = logging.getLogger(__name__)
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # it has Python look for the line of each column operation, in seven calls of Java
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # a cast that cannot be done gives null, which decode turns into a reason; it must never stop the job
    "spark.sql.ansi.enabled": "false",
    # repeated headers are counted, not raised on
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.adaptive.enabled": "false",
    ROWS: str(MANY),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Of the state, too, and each touch of a segment is a version of it. Spark's own 100 kept gigabytes after an outage,
    # and its own minute between two cleanings as much again.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.maintenanceInterval": "15s",
    # Without a snapshot that a power loss has torn: there may be more batches since the one before than Spark's own 50.
    "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": "true",
    "spark.sql.streaming.stateStore.autoSnapshotRepair.maxChangeFileReplay": "1000000",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "streaming.daemon",
    # guards against results of retried stages that differ; ours are deterministic, and it reads every byte again
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.shuffle.checksum.enabled": "false",
}


# With a local master all of Spark's Java is one process, and nobody else has business with its ports. Left to itself
# Spark takes the address of another interface, and listens there.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


# Does in Java what Hadoop's own does by forking chmod and readlink for every file. Executors elsewhere get its jar only
# after they have begun to use files.
_BARE_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}

_SUBMITTED, _DRIVERS_JARS = "PYSPARK_GATEWAY_PORT", "spark.driver.extraClassPath"

PYTHON = "spark.pyspark.python"
"""Of ``job.spark_options``: the Python of executors on other machines, where it is not under this one's path."""

_SOCKET_FOLDER_BYTES = 60
"""A socket's name has at most 103 bytes on all systems; Spark's own part of it takes 43."""

_JAVA = ("-XX:+UseParallelGC", "-XX:-DontCompileHugeMethods", *COMPILING)

# Only with a Delta table: the extensions look at every plan.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # what a table's log says is read in so many tasks; the default of 50 is for clusters, and takes seconds here
    "spark.databricks.delta.snapshotPartitions": "2",
}


def whole_files_jar() -> Path:
    """The jar with the class, made if need be.

    With it Spark writes its checkpoint into an object store: no setting makes Spark's own class do so. Why, and with
    which lines of Hadoop's and Spark's source: see docs/decisions/0034.

    Raises:
        InstallationError: it cannot be made.
    """
    return compiled("WholeFiles", "writes checkpoints into an object store")


def build_session(
    settings: Settings, more_kinds: Collection[str] = (), java_options: Sequence[str] | None = None
) -> SparkSession:
    """Start Spark as the settings say, with the jars they need, fetching what is missing.

    ``more_kinds``: of tables, whose jars it gets as well. ``java_options``: instead of an archive of classes.

    Raises:
        ConfigurationError: ``spark-submit`` has started us with other options.
    """
    use_java()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = settings.job.spark_options.get(PYTHON, sys.executable)
    options = spark_options(settings, more_kinds, java_options)
    if _SUBMITTED in os.environ and SparkContext._gateway is None:  # noqa: SLF001  (none in this process yet)
        _refuse_other_options(options)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    with _scratch_of_its_own(settings) as scratch:
        session = SparkSession.builder.config(map={**options, **_python_sockets(scratch)}).getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_ctrl_c)  # Spark has put a handler of its own there, which raises
    return session


def stop_session(spark: SparkSession) -> None:
    """Stop Spark, if its Java is still there."""
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()


def kinds_of(settings: Settings) -> set[str]:
    """Of tables, and the schemes of stores with a table or the checkpoint: what needs jars of its own."""
    tables = settings.sinks.tables.values()
    paths = [settings.job.checkpoint, *(table.path for table in tables if not isinstance(table, PostgresqlTable))]
    return {*(table.kind for table in tables), *({scheme_of(path) for path in paths} & STORES.keys())}


def spark_options(
    settings: Settings, more_kinds: Collection[str] = (), java_options: Sequence[str] | None = None
) -> dict[str, str]:
    """All options that Spark is started with, but for scratch folders: see :func:`build_session`."""
    master = settings.job.master
    kinds = {*more_kinds, *kinds_of(settings)}
    options = archive_options(kinds) if java_options is None else java_options
    classes = _quoted(options)
    own = [whole_files_jar()] if kinds & STORES.keys() else []
    jars = [str(jar) for jar in [*spark_jars(kinds), *own]]
    # last: it is not safe with others
    in_store = scheme_of(settings.job.checkpoint) in STORES
    whole_files, patience = (WHOLE_FILES, PATIENCE) if in_store else ({}, {})
    # On one machine shuffled rows go through the page cache only: packing them costs more than it saves.
    here = {"spark.shuffle.compress": "false", "spark.executor.extraJavaOptions": " ".join(classes), **_BARE_FILES}
    elsewhere = {"spark.executor.extraJavaOptions": " ".join(_JAVA)}
    local = here if on_this_machine(master) else elsewhere
    loopback = _LOOPBACK if master.partition("[")[0] == "local" else {}
    delta = _DELTA if "delta" in kinds else {}
    return {
        "spark.master": master,
        "spark.app.name": settings.job.name,
        **(_CONF | PLANNING | local | loopback | delta | patience | settings.job.spark_options | whole_files),
        "spark.driver.memory": settings.job.driver_memory,
        "spark.driver.extraJavaOptions": " ".join([_java_options(settings), *_quoted(options_for_user()), *classes]),
        "spark.jars": ",".join(jars),
        _DRIVERS_JARS: os.pathsep.join(jars),
        "spark.executor.extraClassPath": os.pathsep.join(jars),
        "spark.sql.shuffle.partitions": str(settings.job.state_partitions),
    }


def _quoted(options: Sequence[str]) -> list[str]:
    """Options of Java as Spark takes them: a folder's name may have blanks."""
    return [f'"{option}"' for option in options]


def _refuse_other_options(options: Mapping[str, str]) -> None:
    """Those of the driver's Java are given before we are there."""
    SparkContext._ensure_initialized()  # noqa: SLF001  (connects to the Java that has started us)
    given = SparkConf()
    for name in ("spark.master", _DRIVERS_JARS):
        if given.get(name) != options[name]:
            raise ConfigurationError(
                f"spark-submit was started with {name} {given.get(name)!r:.200}, and the settings need "
                f"{options[name]!r:.200}: give it --properties-file, with what 'checkback config --spark-properties' "
                "prints, and leave --master out."
            )


def _python_sockets(folder: Path | None) -> dict[str, str]:
    """Have Java and Python speak through files in a folder of this machine, where its name is short enough for that.

    Spark's own way is a port for each result of a batch. Whoever connects there first, a client of some Kafka that had
    the port before or a scanner, ended the batch, and with it the job.
    """
    if folder is None or len(os.fsencode(folder)) > _SOCKET_FOLDER_BYTES:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


@contextlib.contextmanager
def _scratch_of_its_own(settings: Settings) -> Iterator[Path | None]:
    """While Spark's Java is started on this machine: name it a scratch folder of this run's."""
    before = os.environ.get(DIRS)
    own: list[Path] = []
    if on_this_machine(settings.job.master) and SparkContext._gateway is None:  # noqa: SLF001  (none in this process yet)
        try:
            own = take_scratch(scratch_folders(settings.job.spark_options))
            os.environ[DIRS] = ",".join(str(folder) for folder in own)
        except OSError as error:  # Spark itself says what it cannot write to
            _LOGGER.warning("What killed runs have left in Spark's scratch folder is not removed: %s", error)
    try:
        yield own[0] if own else None
    finally:
        os.environ.pop(DIRS, None)
        if before is not None:
            os.environ[DIRS] = before


def _java_options(settings: Settings) -> str:
    log = resources.files("conf").joinpath("log4j2.properties")
    lines = f"-Dcheckback.log={'text' if is_for_people(settings.log) else 'json'}"
    # The stack: on a stop Spark formats the query's plan with a regular expression that recurses for each line.
    return " ".join([f'"-Dlog4j2.configurationFile={log}"', lines, "-Xss8m", *_JAVA])
