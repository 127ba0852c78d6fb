"""The jars of the local Kafka, of Spark's Kafka connector and of the tables messages may go to, fetched through jgo."""

import os
from collections.abc import Iterable
from pathlib import Path

from checkback.exceptions import InstallationError
from checkback.installing import extra

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0+org.slf4j:slf4j-simple:1.7.36"

# The connector asks for a token provider of its own version, of which 4.0.0 is the newest that resolves;
# Spark's settings cannot express that, a direct dependency can.
SPARK_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    "+org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
    # without it Hadoop forks chmod and readlink for every checkpoint file, some 75 processes a batch
    "+com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
)

# By the kind of a destination; only what is configured is fetched.
TABLES = {
    "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "postgresql": "org.postgresql:postgresql:42.7.4",
}

# Of the resolved jars, those that Spark's own distribution lacks. Delta brings older versions of some that it has.
_NOT_IN_SPARK = (
    "spark-sql-kafka",
    "spark-token-provider",
    "kafka-clients",
    "commons-pool2",
    "hadoop-bare-naked",
    "delta-",
    "unitycatalog-",
    "postgresql-",
)


def kafka_jars() -> list[Path]:
    """Jars of a complete Kafka broker, for its class path."""
    return resolved(KAFKA)


def spark_jars(kinds: Iterable[str] = ()) -> list[Path]:
    """Jars to add to Spark's own, on the class path of driver and executors.

    ``kinds`` are those of the tables that messages go to; one without jars of its own adds none.
    """
    endpoints = [SPARK_CONNECTOR, *(TABLES[kind] for kind in sorted(set(kinds)) if kind in TABLES)]
    return [jar for endpoint in endpoints for jar in resolved(endpoint) if jar.name.startswith(_NOT_IN_SPARK)]


def fetched(kinds: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Names of the jars of :func:`spark_jars` that are here, and of those that a start would have to fetch.

    Looks at jgo's cache, not at the network; of each endpoint only at the jar that it is named by.
    """
    try:
        from jgo.constants import default_jgo_cache  # noqa: PLC0415  (brings a resolver that an application never needs)
    except ModuleNotFoundError as error:
        raise InstallationError(f"The jars are fetched by jgo: {extra('local')}.") from error

    cache = Path(os.environ.get("JGO_CACHE_DIR") or default_jgo_cache())
    endpoints = [SPARK_CONNECTOR, *(TABLES[kind] for kind in sorted(set(kinds)) if kind in TABLES)]
    there: list[str] = []
    missing: list[str] = []
    for endpoint in endpoints:
        for coordinate in endpoint.split("+"):
            name = "-".join(coordinate.split(":")[1:]) + ".jar"
            known = any((cache / "envs").glob(f"**/{name}"))
            (there if known else missing).append(name.removesuffix(".jar"))
    return there, missing


def resolved(endpoint: str) -> list[Path]:
    """The jars of a Maven artifact and of all that it needs, fetched if need be.

    Raises:
        InstallationError: they cannot be fetched.
    """
    try:
        import jgo  # noqa: PLC0415  (brings a resolver that an application never needs)
    except ModuleNotFoundError as error:
        raise InstallationError(f"The jars are fetched by jgo: {extra('local')}.") from error

    # A dead proxy or a missing route would else be waited for, for minutes.
    os.environ.setdefault("JGO_TIMEOUT", "30")
    try:
        try:
            folder = Path(jgo.build(endpoint).path)
        except FileExistsError:  # another process was at it, and has put the jars there
            folder = Path(jgo.build(endpoint).path)
    except Exception as error:
        raise InstallationError(
            f"Could not fetch {endpoint.split('+', maxsplit=1)[0]} from Maven: is there a network? ({error})"
        ) from error
    jars = sorted(folder.glob("*/*.jar"))
    if not jars:
        raise InstallationError(f"{folder} holds no jars: remove that folder and try again.")
    return jars
