"""Fixtures for pytest: ``pytest_plugins = ["checkback.testing.pytest_plugin"]`` in a ``conftest.py``."""

from collections.abc import Iterator

import pytest

from checkback.testing.cluster import LocalCluster
from checkback.testing.job_process import JobProcess
from checkback.testing.recording import RecordingTransport


@pytest.fixture
def checkback_transport() -> RecordingTransport:
    """For ``TransactionProducer(..., transport=checkback_transport)``: no Kafka is needed."""
    return RecordingTransport()


@pytest.fixture(scope="session")
def checkback_topics() -> tuple[str, ...]:
    """Real topics of ``checkback_cluster``; overwrite it with your own."""
    return ()


@pytest.fixture(scope="session")
def checkback_cluster(checkback_topics: tuple[str, ...]) -> Iterator[LocalCluster]:
    """One Kafka with Checkback's topics for all tests."""
    with LocalCluster(checkback_topics) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def checkback_job(checkback_cluster: LocalCluster) -> Iterator[JobProcess]:
    """One job for all tests. It asks about a transaction after 2 s, and then every 2 s."""
    quick = {"TRANSACTIONS__TIMEOUT": "2s", "TRANSACTIONS__CHECK_INTERVAL": "2s", "TRANSACTIONS__TIMER_SLACK": "100ms"}
    with checkback_cluster.running_job(quick) as job:
        yield job
