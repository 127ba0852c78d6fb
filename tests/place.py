"""A place of its own for each test: topics, settings, and what consumers find there."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Topics
from conf import Settings, TransactionSettings
from conf.settings import AccessSettings

HALF_PARTITIONS = 2
STATE_PARTITIONS = 2
_MARKER_SECONDS = 5.0
AWKWARD_NAME = "ck é %20 #1 [a]+b"
"""Of a folder: what URLs escape, what they escape it with, and what looks like a pattern."""


def signing_access(folder: Path) -> AccessSettings:
    """Of a job whose key is ``job-1``."""
    secrets = folder / "secrets.toml"
    secrets.write_text(f'job-1 = "{"j" * 40}"\n', encoding="utf-8")
    secrets.chmod(0o600)
    return AccessSettings(secrets=str(secrets), key="job-1")


@dataclass(frozen=True)
class Place:
    """Topics of one test."""

    bootstrap_servers: str
    topics: Topics
    real_topic: str
    folder: Path
    transactions: dict[str, Any] = field(
        default_factory=lambda: {"timeout": "2s", "check_interval": "2s", "timer_slack": "100ms"}
    )

    def create_topics(self, real_partitions: int) -> None:
        """Make them, and wait until the broker knows them."""
        with TopicAdministration(self.bootstrap_servers) as administration:
            administration.create(
                self.topics,
                partitions=HALF_PARTITIONS,
                progress_partitions=STATE_PARTITIONS,
                replication=1,
                times=TransactionSettings(),
            )
            administration.create_one(self.real_topic, real_partitions)
            names = (*self.topics.all(), self.real_topic)
            # a topic that was created is not known at once
            wait_until(lambda: len(administration.partitions(names)) == len(names))

    def delete_topics(self) -> None:
        """Delete all topics with the test's prefix: a broker with thousands of partitions is several times slower."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            admin.delete_topics([name for name in admin.list_topics() if name.startswith(self.topics.prefix)])
        finally:
            admin.close()

    def on(self, bootstrap_servers: str) -> "Place":
        """The same topics on another broker, where they are still to be made."""
        return replace(self, bootstrap_servers=bootstrap_servers)

    def settings(self, **sections: dict[str, Any]) -> Settings:
        """Settings of a job on these topics; ``sections`` are laid over them."""
        given: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": self.bootstrap_servers, "topic_prefix": self.topics.prefix},
            "job": {
                "checkpoint": str(self.folder / "checkpoint"),
                "master": "local[2]",
                "state_partitions": STATE_PARTITIONS,
                "name": self.topics.prefix.rstrip("."),
            },
            "transactions": self.transactions,
            "http": {"port": 0},
        }
        return Settings.model_validate(
            {name: {**given.get(name, {}), **sections.get(name, {})} for name in given | sections}
        )

    def producer(self) -> KafkaProducer:
        """A plain Kafka producer, for records our SDK would not write."""
        return KafkaProducer(bootstrap_servers=self.bootstrap_servers, acks="all")

    def read(self, topic: str, isolation_level: str = "read_committed") -> list[Any]:
        """All records of a topic that a consumer may see now, partition by partition."""
        with closing(reading_consumer(self.bootstrap_servers, isolation_level)) as consumer:

            def ends_of(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
                ends: dict[TopicPartition, int] = consumer.end_offsets(partitions)
                if isolation_level == "read_committed":
                    # Kafka answers a commit before its markers are written: until then consumers see nothing of it
                    deadline = time.monotonic() + _MARKER_SECONDS
                    while ends != self._written(partitions) and time.monotonic() < deadline:
                        ends = consumer.end_offsets(partitions)
                return ends

            return list(records_to_end(consumer, topic, ends_of))

    def _written(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap_servers)
        try:
            return dict(consumer.end_offsets(places))
        finally:
            consumer.close()


@contextmanager
def fresh_place(bootstrap_servers: str, folder: Path) -> Iterator[Place]:
    """Fresh topics on a broker, and settings for a job on them."""
    prefix = f"t{uuid.uuid4().hex[:12]}."
    made = Place(bootstrap_servers, Topics(prefix), f"{prefix}orders", folder)
    made.create_topics(real_partitions=4)
    yield made
    made.delete_topics()


def with_real_topic(place: Place, partitions: int = 4) -> Place:
    """The same place with a fresh real topic."""
    name = f"{place.topics.prefix}{uuid.uuid4().hex[:12]}"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(name, partitions)
        wait_until(lambda: bool(administration.partitions((name,))))
    return replace(place, real_topic=name)


FAR_SECONDS = 480.0
"""Of one condition: it costs nothing where the condition holds, and no machine is to be too slow for it."""


def wait_until(holds: Callable[[], bool], what: str = "the condition") -> None:
    """Wait for a condition, with a deadline that is far away."""
    deadline = time.monotonic() + FAR_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not hold within {FAR_SECONDS:.0f} s"
        time.sleep(0.1)


def configure_topic(bootstrap_servers: str, topic: str, **configuration: str) -> None:
    """Change a topic's configuration, whose names have _ for each full stop here."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        wanted = {name.replace("_", "."): value for name, value in configuration.items()}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
    finally:
        admin.close()


def find_by_environment(place: Place, monkeypatch: pytest.MonkeyPatch, columns: int = 300) -> None:
    """Have commands find it, on a terminal of so many columns."""
    for variable in [name for name in os.environ if name.upper().startswith("CHECKBACK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", place.topics.prefix)
    monkeypatch.setenv("CHECKBACK_KAFKA__BOOTSTRAP_SERVERS", place.bootstrap_servers)
    monkeypatch.setenv("CHECKBACK_JOB__CHECKPOINT", str(place.folder / "checkpoint"))
    monkeypatch.setenv("COLUMNS", str(columns))
