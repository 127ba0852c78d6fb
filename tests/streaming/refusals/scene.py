"""A sink whose real topic is narrow, and rows of a size."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from checkback.operations.topics import TopicAdministration
from checkback.wire import protocol
from streaming.batch.batch import Batch, PartitionReport
from streaming.batch.failpoints import Failpoint
from streaming.batch.record import RANDOM_OR_KEYED, Record, batch_bytes
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.partition_writer import write_partition
from tests.place import Place, wait_until
from tests.streaming.outcomes import outcome, rows

Rows = Iterator[pa.RecordBatch]
LIMIT = 1000


@dataclass
class Sink:
    """The sink's task on a place; counts its passes."""

    place: Place
    passes: int = 0
    query_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    options: dict[str, str] = field(default_factory=dict)
    kept_bytes: int = 64 << 20

    def write(self, outcomes: Rows, number: int = 0, dated_ms: int = 0) -> PartitionReport:
        servers, kept = self.place.bootstrap_servers, self.kept_bytes
        settings = SinkSettings(servers, self.place.topics, 60_000, self.options, self._count, kept_bytes=kept)
        batch = Batch(self.query_id, number, "hash", every_partition_writes=False, dated_ms=dated_ms)
        return write_partition(settings, batch, 0, outcomes)

    def write_all(self, *outcomes: dict[str, Any]) -> PartitionReport:
        """In the first batch."""
        return self.write(rows(*outcomes))

    def topic(self, name: str, partitions: int = 1, **configuration: str) -> str:
        """A topic of this place; the configuration's names with _ for full stops."""
        with TopicAdministration(self.place.bootstrap_servers) as administration:
            configs = {key.replace("_", "."): value for key, value in configuration.items()}
            full = f"{self.place.topics.prefix}{name}"
            administration.create_one(full, partitions, 1, configs)
            wait_until(lambda: full in administration.partitions((full,)))
        return full

    def values(self, topic: str) -> list[bytes]:
        return [record.value for record in self.place.read(topic)]

    def parked(self) -> dict[str, str]:
        """Transaction id to reason: those that are left to operators."""
        return self._kept("park") | self._reasons(self.place.topics.parked)

    def held(self) -> dict[str, str]:
        """Transaction id to reason: those that will be tried again."""
        return self._kept("commit")

    def _kept(self, action: str) -> dict[str, str]:
        return self._reasons(self.place.topics.half, action)

    def _reasons(self, topic: str, action: str | None = None) -> dict[str, str]:
        found = [dict(record.headers) for record in self.place.read(topic)]
        found = [one for one in found if action is None or one.get("cb-action") == action.encode()]
        assert len({one["cb-id"] for one in found}) == len(found)
        return {one["cb-id"].decode(): one["cb-reason"].decode() for one in found}

    def _count(self, step: Failpoint, _: int) -> None:
        self.passes += step is Failpoint.BEFORE_TRANSACTION


def of_size(topic: str, size: int, **columns: Any) -> dict[str, Any]:
    """A delivery whose batch of one has exactly so many bytes."""
    row = outcome(topic, value=b"", **columns)
    headers = [(protocol.ID, row["transaction_id"].encode())]
    record = Record(topic, RANDOM_OR_KEYED, row["key"], b"x" * (size - 100), headers)
    fits = record._replace(value=b"x" * (size - 100 + size - batch_bytes(record)))
    assert batch_bytes(fits) == size
    return {**row, "value": fits.value}
