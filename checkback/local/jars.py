"""The jars of the local Kafka, of Spark's Kafka connector and of the tables messages may go to, fetched through jgo."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checkback.exceptions import InstallationError
from checkback.installing import extra
from checkback.local.folders import home

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

# By the scheme of a checkpoint in an object store. hadoop-aws asks for all of AWS in one jar of 600 MB; these parts of
# it do. "!": jgo cannot read how their poms manage versions.
_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
STORES = {
    "s3a": "+".join(
        ["org.apache.hadoop:hadoop-aws:3.5.0!", *(f"software.amazon.awssdk:{part}:2.35.4!" for part in _PARTS)]
    )
}
_LEFT_OUT = ("software.amazon.awssdk:bundle",)

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
_OF_STORES_IN_SPARK = ("commons-", "httpclient-", "httpcore-", "slf4j-", "netty-")
_OF_STORES = ("netty-nio-client",)


def kafka_jars() -> list[Path]:
    """Jars of a complete Kafka broker, for its class path."""
    return resolved(KAFKA)


def spark_jars(kinds: Iterable[str] = ()) -> list[Path]:
    """Jars to add to Spark's own, on the class path of driver and executors.

    ``kinds`` are those of the tables that messages go to, and the scheme of a store; one without jars of its own adds
    none.
    """
    kinds = set(kinds)
    found = [jar for endpoint in _endpoints(kinds) for jar in resolved(endpoint) if jar.name.startswith(_NOT_IN_SPARK)]
    for scheme in sorted(kinds & STORES.keys()):
        jars = resolved(STORES[scheme], _LEFT_OUT)
        found += [
            jar for jar in jars if jar.name.startswith(_OF_STORES) or not jar.name.startswith(_OF_STORES_IN_SPARK)
        ]
    return found


def _endpoints(kinds: Iterable[str]) -> list[str]:
    return [SPARK_CONNECTOR, *(TABLES[kind] for kind in sorted(set(kinds)) if kind in TABLES)]


def fetched(kinds: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Names of the jars of :func:`spark_jars` that are here, and of those that a start would have to fetch.

    Looks at jgo's cache, not at the network; of each endpoint only at the jar that it is named by.
    """
    try:
        from jgo.constants import default_jgo_cache  # noqa: PLC0415  (brings a resolver that an application never needs)
    except ModuleNotFoundError as error:
        raise InstallationError(f"The jars are fetched by jgo: {extra('local')}.") from error

    home()  # jgo looks for one, and fails without
    cache = Path(os.environ.get("JGO_CACHE_DIR") or default_jgo_cache())
    kinds = set(kinds)
    there: list[str] = []
    missing: list[str] = []
    for endpoint in [*_endpoints(kinds), *(STORES[scheme] for scheme in sorted(kinds & STORES.keys()))]:
        for coordinate in endpoint.split("+"):
            name = "-".join(coordinate.rstrip("!").split(":")[1:]) + ".jar"
            known = any((cache / "envs").glob(f"**/{name}"))
            (there if known else missing).append(name.removesuffix(".jar"))
    return there, missing


def resolved(endpoint: str, left_out: Iterable[str] = ()) -> list[Path]:
    """The jars of a Maven artifact and of all that it needs, fetched if need be; not those of artifacts ``left_out``.

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
        home()  # jgo looks for one, and fails without
        try:
            folder = _built(jgo, endpoint, left_out)
        except FileExistsError:  # another process was at it, and has put the jars there
            folder = _built(jgo, endpoint, left_out)
    except Exception as error:
        raise InstallationError(
            f"Could not fetch {endpoint.split('+', maxsplit=1)[0]} from Maven: is there a network? ({error})"
        ) from error
    jars = sorted(folder.glob("*/*.jar"))
    if not jars:
        raise InstallationError(f"{folder} holds no jars: remove that folder and try again.")
    return jars


def _built(jgo: Any, endpoint: str, left_out: Iterable[str]) -> Path:
    if not left_out:
        return Path(jgo.build(endpoint).path)
    from jgo.config import GlobalSettings  # noqa: PLC0415  (as jgo itself)
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415  (likewise)
    from jgo.env import EnvironmentBuilder, EnvironmentSpec  # noqa: PLC0415  (likewise)
    from jgo.maven import MavenContext  # noqa: PLC0415  (likewise)

    settings = GlobalSettings.load()
    context = MavenContext(repo_cache=settings.repo_cache, remote_repos={"central": MAVEN_CENTRAL_URL})
    wanted = EnvironmentSpec(coordinates=endpoint.split("+"), exclusions=list(left_out))
    return Path(EnvironmentBuilder(context=context, cache_dir=settings.cache_dir).from_spec(wanted).path)
