"""Orders that have several half messages, and what was said of each: as Kafka has it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.wire import protocol
from checkback.wire.message_json import unpack
from checkback.wire.protocol import Topics
from torture.gateways.orders import NAME


@dataclass
class Half:
    """A half message of an order."""

    place: str
    """Partition and offset, as ops have it."""
    transaction_id: str
    time_ms: int
    said: list[str] = field(default_factory=list)
    """What ops say of it, and who says it, in their order."""

    @property
    def committed(self) -> bool:
        """Whether anybody said so."""
        return any(one.startswith(protocol.Action.COMMIT) for one in self.said)

    def __str__(self) -> str:
        return f"half {self.place} of {self.time_ms} ({', '.join(self.said) or 'nothing said'})"


def halves_of_orders(bootstrap_servers: str, topics: Topics) -> Mapping[str, Sequence[Half]]:
    """All half messages, by order."""
    by_order: defaultdict[str, list[Half]] = defaultdict(list)
    by_place: dict[str, Half] = {}
    with closing(reading_consumer(bootstrap_servers)) as consumer:
        for record in records_to_end(consumer, topics.half):
            place = f"{record.partition}:{record.offset}"
            by_place[place] = half = Half(place, _header(record, protocol.ID), record.timestamp)
            by_order[_order(record)].append(half)
        for record in records_to_end(consumer, topics.op):
            if about := by_place.get(_header(record, protocol.HALF)):
                about.said.append(f"{_header(record, protocol.ACTION)} by {_header(record, protocol.SOURCE)}")
    return by_order


def _order(record: Any) -> str:
    headers = record.headers
    if _header(record, protocol.MESSAGES):
        headers = unpack(record.value)[0].headers
    return (dict(headers).get(NAME) or b"").decode()


def _header(record: Any, name: str) -> str:
    return (dict(record.headers).get(name) or b"").decode(errors="replace")
