"""A consumer of a test, as :mod:`checkback.kafka.kafka_python.repairs` finds it: with nothing to repair."""

from types import SimpleNamespace
from typing import Any


class NeedsNoRepair:
    """To inherit from: what the repairs look at, where nothing was fetched and there is no group."""

    _coordinator = None
    _fetcher: Any = SimpleNamespace(PartitionRecords=None, _next_partition_records=None)
    _cluster: Any = SimpleNamespace(topic_id=lambda _: None)
    _manager: Any = SimpleNamespace(send=None)
    _net: Any = SimpleNamespace(run=lambda *_: SimpleNamespace(topics=[]))
    """Kafka hides no topic."""
