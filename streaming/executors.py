"""Executors on other machines: what they need is tried before anything is taken over."""

import logging
import platform
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError, JobFailedError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import AdminClient, KafkaException
from checkback.version import __version__
from conf import Settings
from streaming.brokers.client import SinkSettings
from streaming.session import PYTHON

_LOGGER = logging.getLogger(__name__)
_SAY_SECONDS = 20.0
_GIVE_UP_SECONDS = 600.0
"""A cluster may have to make machines for the executors, and to fetch an image there."""
_KAFKA_SECONDS = 20.0
_GROUP = "try-executors"
_NO_PYTHON = re.compile(r"No module named '?[\w.]+'?|Cannot run program \"[^\"]+\"[^\n]*|PYTHON_VERSION_MISMATCH[^\n]*")
_PAGE = "docs/cluster.md says how Python and Checkback get there"


class Found(NamedTuple):
    """What a task finds where it runs."""

    host: str
    python: str
    """Major and minor version."""
    checkback: str
    """Version."""
    kafka: str
    """Why Kafka cannot be reached from there; empty: it can."""
    secrets: str
    """Why the policy's secrets cannot be read there; empty: they can, or none are needed."""


def try_executors(spark: SparkSession, settings: Settings, sink: SinkSettings) -> None:
    """Have a task of each state partition look around where executors are on other machines; 10 minutes at most.

    Raises:
        ConfigurationError: they have another Python or Checkback, or none, or lack the policy's secrets.
        JobFailedError: they do not reach Kafka, or the cluster gives none.
    """
    secrets = str(Path(settings.access.secrets).absolute()) if settings.access.secrets else ""
    look = partial(_look, client=sink.client(), secrets=secrets)
    for found in dict.fromkeys(_run(spark, settings, look)):
        refuse_unlike(found, settings.kafka.bootstrap_servers)


def refuse_unlike(found: Found, servers: str) -> None:
    """Whether an executor can do the job's work.

    Raises:
        ConfigurationError, JobFailedError: as :func:`try_executors`.
    """
    here = (_python(), __version__)
    if (found.python, found.checkback) != here:
        raise ConfigurationError(
            f"The executor on {found.host} has Python {found.python} and Checkback {found.checkback}, the job has "
            f"Python {here[0]} and Checkback {here[1]}: they must be the same. {_PAGE}."
        )
    if found.secrets:
        raise ConfigurationError(
            f"The executor on {found.host} cannot read the secrets that the access policy needs ({found.secrets}): put "
            "the file that access.secrets names on every machine that runs executors."
        )
    if found.kafka:
        raise JobFailedError(
            f"The executor on {found.host} does not reach Kafka at {servers} ({found.kafka}): what "
            "kafka.bootstrap_servers names, and what the brokers advertise, has to be an address there, too."
        )


def _run(spark: SparkSession, settings: Settings, look: Any) -> Sequence[Found]:
    number = settings.job.state_partitions
    context = spark.sparkContext
    waiting = threading.Timer(_SAY_SECONDS, _LOGGER.warning, (_waits(settings),))
    given_up = threading.Timer(_GIVE_UP_SECONDS, context.cancelJobGroup, (_GROUP,))
    context.setJobGroup(_GROUP, "whether executors can do the job's work", interruptOnCancel=False)
    waiting.start()
    given_up.start()
    try:
        rows = spark.range(0, number, 1, number).mapInArrow(look, _SCHEMA).collect()
    except (PySparkException, Py4JError) as error:
        missing = _NO_PYTHON.search(str(error))
        if missing is not None:
            python = settings.job.spark_options.get(PYTHON, "the path of the job's own")
            raise ConfigurationError(
                f"The executors cannot run Checkback with {python} ({missing[0].strip()}). {_PAGE}."
            ) from error
        if not given_up.is_alive():
            raise JobFailedError(f"After {_GIVE_UP_SECONDS:.0f} s: {_waits(settings)}") from error
        raise
    finally:
        waiting.cancel()
        given_up.cancel()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None takes it away
    return [Found(*row) for row in rows]


def _waits(settings: Settings) -> str:
    options = settings.job.spark_options
    memory, cores = options.get("spark.executor.memory", "1g"), options.get("spark.executor.cores")
    asked = f"{memory} of memory" + (f" and {cores} cores" if cores else "")
    return (
        f"The cluster at {settings.job.master} has not run a task yet: it may still start executors, or no worker has "
        f"what each of them asks for free, {asked} (spark.executor.memory, spark.executor.cores; the master's page "
        "shows what workers have), or spark.cores.max in job.spark_options is less than one asks for, or "
        "executors do not reach this machine (spark.driver.host, spark.driver.port, spark.driver.blockManager.port)."
    )


_SCHEMA = ", ".join(f"{name} string" for name in Found._fields)


def _look(batches: Iterator[pa.RecordBatch], client: dict[str, Any], secrets: str) -> Iterator[pa.RecordBatch]:
    """Runs there."""
    for _ in batches:
        pass
    found = Found(socket.gethostname(), _python(), __version__, _no_kafka(client), _unreadable(secrets))
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in found._asdict().items()})


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _no_kafka(client: dict[str, Any]) -> str:
    try:
        make_client(AdminClient, client).list_topics(timeout=_KAFKA_SECONDS)
    except (KafkaException, ConfigurationError) as error:
        return str(error)
    return ""


def _unreadable(path: str) -> str:
    if path:
        try:
            Path(path).read_bytes()
        except OSError as error:
            return f"{path}: {error.strerror}"
    return ""
