"""One broker and one Spark session for the whole run; fresh topics for each test."""

import asyncio
import atexit
import functools
import inspect
import logging
import os
import shlex
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from checkback.kafka.librdkafka.library import Consumer
from checkback.local import LocalKafka
from checkback.local.jars import STORES
from checkback.local.kafka import free_port
from conf import Settings
from streaming import build_session
from streaming.access.told import POLICY_WORD
from streaming.fairness.barred import BARRED_WORD
from streaming.kafka_sink import partition_writer
from tests.place import STATE_PARTITIONS, Place, fresh_place
from tests.rest import tier_of
from tests.sql.postgres import running_postgres
from tests.tables import Database

# A loaded machine exceeds each time limit. On import, so that it is also in force in each worker of pytest-xdist.
_EVERY: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", **_EVERY, max_examples=30)
settings.register_profile("nightly", **_EVERY, max_examples=500)
settings.load_profile(os.environ.get("CHECKBACK_HYPOTHESIS", "ci"))
# To build the tree of all commands takes longer than most of them run.
typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]  # it is private
os.environ.setdefault("PYTHONFAULTHANDLER", "1")  # pytest has its own; this is for the programs that tests start

_STATUS = pytest.StashKey[int]()
_SERVICES = frozenset({"broker", "proxied_broker", "spark", "database", "postgres"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a service, by fixture or if their module starts a broker; those of the rest, of the lab."""
    for item in items:
        if tier := tier_of(item.nodeid):
            item.add_marker(tier)
        if _SERVICES & set(getattr(item, "fixturenames", ())) or hasattr(getattr(item, "module", None), "LocalKafka"):
            item.add_marker("service")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is an ``async def`` on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what its module promises, and how to run the test alone."""
    report = yield
    if report.failed:
        promise = inspect.getdoc(getattr(item, "module", None)) or item.nodeid
        report.sections.append(("promise", promise.partition("\n\n")[0]))
        report.sections.append(("run it alone", f".venv/bin/python -m pytest {shlex.quote(item.nodeid)}"))
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the status for the end."""
    session.config.stash[_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End without the clean-up of librdkafka's OpenSSL: it crashes if a thread that has used it ends at that moment."""
    if _STATUS in config.stash:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[_STATUS])


@pytest.fixture(scope="session", autouse=True)
def _quiet_clients() -> None:
    # kafka-python logs every connection that ends with its broker
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalKafka]:
    """A real Kafka, started when the first test asks for it."""
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real Spark, started when the first test asks for it, with the jars of every kind of table and store."""
    job = {"master": "local[2]", "driver_memory": "1536m", "state_partitions": STATE_PARTITIONS}
    tables = {
        "lake": {"kind": "delta", "path": "no such place"},
        "warehouse": {"kind": "postgresql", "url": "jdbc:postgresql://no.such.place/"},
    }
    session = build_session(Settings.model_validate({"job": job, "sinks": {"tables": tables}}), STORES)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _nothing_told(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test told the tasks of its batches, no later test's tasks hear: they are started by the same thread."""
    yield
    if "spark" in request.fixturenames:
        context = request.getfixturevalue("spark").sparkContext
        for word in (BARRED_WORD, POLICY_WORD):
            word.tell(context, "")


@pytest.fixture(autouse=True)
def _no_clients_left() -> Iterator[None]:
    """What a worker keeps across batches for its one run, each test here would add: 24 files for each job."""
    yield
    for made in partition_writer._made.values():
        if isinstance(made, Consumer):
            made.close()
    partition_writer._made.clear()


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    """A real PostgreSQL, started when the first test asks for it."""
    port = free_port()
    with running_postgres(port) as url:
        socket = {"host": url.query["host"], "port": port, "user": "test", "dbname": "postgres"}
        made = Database(port, socket, f"jdbc:postgresql://127.0.0.1:{port}/postgres")
        made.run(f"CREATE ROLE {made.user} LOGIN PASSWORD '{made.password}'")
        yield made


@pytest.fixture
def place(broker: LocalKafka, tmp_path: Path) -> Iterator[Place]:
    """Fresh topics on the broker, and settings for a job on them."""
    with fresh_place(broker.bootstrap_servers, tmp_path) as made:
        yield made
