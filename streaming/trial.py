"""What the first batch needs of Kafka, tried while the run before still continues: later would be too late for both."""

import errno
import importlib
import json
import logging
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from access import Operation, ResourceKind, Role, Whom, rights_of
from access.roles import FOR_PAGE, lacking
from checkback.exceptions import ConfigurationError, JobStoppedError, NotAllowedError
from checkback.installing import job
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import Consumer, Producer
from checkback.operations.topic_facts import allowed_of
from checkback.operations.topics import admin_client
from checkback.wire.groups import claim_group
from conf import Settings
from streaming.access.policy_in_force import PolicyFile, policy_file
from streaming.brokers.client import SinkSettings, producer_settings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.checkpoint.folder import FACTS_FILE, CheckpointFacts, compare, complete
from streaming.checkpoint.grown import as_grown
from streaming.checkpoint.place import refuse_silent_master, refuse_unfit_place
from streaming.checkpoint.progress import trial_id
from streaming.kafka_sink.transaction import KafkaTransaction
from streaming.query import kafka_source

_LOGGER = logging.getLogger(__name__)
_OPTIONS = "kafka.sink_options or kafka.security"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def usable(settings: Settings, sink: SinkSettings) -> PolicyFile:
    """Try options and files that the settings name; returns the policy file."""
    if settings.job.tracing:
        try_tracing()
    try_options(sink)
    refuse_unfit_place(settings.job.checkpoint, settings.job.master)
    refuse_silent_master(settings.job.master)
    return policy_file(settings)


def try_options(settings: SinkSettings) -> None:
    """Have librdkafka read ``kafka.sink_options``, before anything is asked of Kafka.

    Raises:
        WrongOptionError: it does not have one of them, or cannot use its value.
    """
    for kind in (Producer, Consumer):
        client: Any = make_client(kind, settings.client(**({"group.id": "none"} if kind is Consumer else {})), _OPTIONS)
        if kind is Consumer:
            client.close()


def try_rights(settings: Settings) -> None:
    """Have Kafka say what the job's user may do with Checkback's topics and groups.

    Where it does not say, nothing is refused; nor for what is only to be shown, or looked at: the log names that.

    Raises:
        NotAllowedError: rights are missing; it names each.
        KafkaError: Kafka does not answer.
    """
    kafka = settings.kafka
    roles = (Role.JOB, Role.CHECKS) if settings.checks.in_job else (Role.JOB,)
    rights = [right for role in roles for right in rights_of(role, Whom(kafka.topics, real=("*",)))]
    used = {right.name for right in rights if right.kind is ResourceKind.GROUP and not right.prefixed}
    groups = [claim_group(kafka.topics), *used]
    with closing(admin_client(kafka.bootstrap_servers, kafka.python_client)) as admin:
        missing = dict.fromkeys(lacking(rights, allowed_of(admin, kafka.topics.all(), groups)))
    needed = [one for one in missing if one.operation is not Operation.DESCRIBE_CONFIGS and one.why != FOR_PAGE]
    if needed:
        raise NotAllowedError(
            f"Kafka does not allow the job all that it does: grant its user {', '.join(map(str, needed))} "
            "('checkback access grant job')."
        )
    for right in missing:
        _LOGGER.warning("The job starts without %s (%s): grant its user that right.", right, right.why)


def try_folder(checkpoint: str) -> str | None:
    """Make a checkpoint folder on this machine, and write a file there; what Hadoop has elsewhere is tried later.

    Returns:
        The query id in it; empty: it has none yet; None: it is not on this machine.

    Raises:
        JobStoppedError: it cannot be created, or written to.
    """
    if "://" in checkpoint:
        return None
    folder = Path(checkpoint.removeprefix("file:"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobStoppedError(
            f"The checkpoint folder {checkpoint} cannot be created: {_reason(error, folder)}. Name another one in "
            "job.checkpoint."
        ) from error
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno in _FULL:  # a restart may find room: Spark's own error says so
            return None
        raise JobStoppedError(
            f"The job may not write to its files: {_reason(error, folder)}. Give the job's user write permission on "
            f"the checkpoint folder {checkpoint}, then start again."
        ) from error
    try:
        return str(json.loads((folder / "metadata").read_bytes())["id"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):  # torn: what reads it by Hadoop has the sentence
        return None


def try_facts(checkpoint: str, facts: CheckpointFacts) -> None:
    """Hold what a checkpoint on this machine says of itself against what holds now.

    One that is elsewhere, is new, or says nothing that can be read is left to :meth:`Checkpoint.check`, which needs
    Spark.

    Raises:
        CheckpointMismatchError: it was made under other settings, or for topics that are not there any more.
    """
    if "://" in checkpoint:
        return
    try:
        folder = Path(checkpoint.removeprefix("file:"))
        stored = json.loads((folder / FACTS_FILE).read_bytes())
        names = [one.name for one in folder.iterdir()]
    except (OSError, ValueError):
        return
    if complete(stored):
        compare(checkpoint, as_grown(stored, names), facts)


def _reason(error: OSError, folder: Path) -> str:
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        return f"{there} is not a folder"
    return f"the system says '{(error.strerror or str(error)).lower()}' in {there}"


def try_source(spark: SparkSession, settings: Settings) -> None:
    """Have Spark ask Kafka where the half and the op topic begin and end, with the source's own options (0.2 s).

    Raises:
        Py4JError, PySparkException: the options are wrong, or Kafka does not let the job in.
    """
    options = {**kafka_source(settings), "startingOffsets": "earliest", "endingOffsets": "latest"}
    found = spark.read.format("kafka").options(**options).load()
    found._jdf.queryExecution().toRdd().getNumPartitions()


def try_transaction(settings: SinkSettings, query_id: str) -> None:
    """Have Kafka set up a transactional producer as the sink's tasks have them, under an id that none of them uses.

    Raises:
        ConfigurationError: the transaction time-out is longer than the broker allows.
        KafkaException: Kafka does not let the job in.
    """
    timeout, directory = settings.transaction_timeout_ms, TopicDirectory(Brokers(settings.client()))
    client = settings.client(**producer_settings(trial_id(query_id), timeout))
    KafkaTransaction(client, timeout, directory, settings.topics.progress).open()


def try_tracing() -> None:
    """Refuse ``job.tracing`` without what it needs.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """
    for name in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"job.tracing needs OpenTelemetry: {job('tracing')}; or set it to false."
            ) from error
