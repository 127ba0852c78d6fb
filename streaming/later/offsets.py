"""How far ``cb.later`` has been moved: what the offsets of its group say, and what it means that one is missing.

Kafka forgets a group's offsets, each for itself: when none was stored for a week, with their topic, and on an
operator's word. A partition without one has either never been moved, and begins at its first record, or everything in
it would be moved again. What tells them apart: all partitions get an offset before the first record is moved, each
with the topic's id and the number of partitions in its metadata, and then the checkpoint remembers the topic's id.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from checkback.exceptions import JobStoppedError
from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.library import TopicPartition
from checkback.kafka.librdkafka.topics import TopicDescription
from checkback.wire.groups import metadata_of
from checkback.wire.json_reading import number_of, read_object, text_of

_LOGGER = logging.getLogger(__name__)
UNKNOWN_EPOCH = -1
_MOST_ID_BYTES = 100
"""Of Kafka's id of a topic, which is shorter."""


class Reached(NamedTuple):
    """How far a partition has been moved."""

    offset: int
    """Behind the last record that was moved."""
    epoch: int = UNKNOWN_EPOCH
    """Of the leader that had this record: librdkafka then notices when its brokers have lost it."""
    end: int = 0
    """To there is nothing else to be moved: the ends of transactions lie between. 0: not known."""


@dataclass(frozen=True)
class StoredOffset:
    """What Kafka has of one partition."""

    reached: Reached | None
    """None: nothing."""
    topic_id: str = ""
    """Of the topic that it was stored for; empty: it does not say, of an earlier version or an operator's."""
    partitions: int = 0
    """So many of them had an offset then."""

    @classmethod
    def of(cls, found: TopicPartition) -> Self:
        """What ``committed`` gives."""
        if found.offset < 0:
            return cls(None)
        epoch = found.leader_epoch
        at = Reached(found.offset, UNKNOWN_EPOCH if epoch is None else epoch)
        try:
            said = read_object(metadata_of(found))
            end, partitions = number_of(said, "end"), number_of(said, "partitions")
            return cls(at._replace(end=end), text_of(said, "topic", _MOST_ID_BYTES), partitions)
        except ValueError:
            return cls(at)


def to_store(name: str, topic: TopicDescription, reached: Mapping[int, Reached]) -> list[TopicPartition]:
    """The offsets of these partitions, with what :class:`StoredOffset` reads from them."""
    stored = []
    for number, one in sorted(reached.items()):
        said = {"topic": topic.id, "partitions": topic.partitions, "end": max(one.end, one.offset)}
        stored.append(TopicPartition(name, number, one.offset, json.dumps(said), one.epoch))
    return stored


def begin_at(
    group: str, topic: TopicDescription, stored: Sequence[StoredOffset], bounds: Sequence[Bounds], *, remembered: bool
) -> dict[int, Reached]:
    """Where to read on in each partition. ``remembered``: all that the topic had then have been given an offset once.

    Raises:
        JobStoppedError: nobody knows.
    """
    own = [one for one in stored if one.topic_id == topic.id]
    known = max((one.partitions for one in own), default=0)
    lost: list[int] = []
    begin: dict[int, Reached] = {}
    for number, (one, (first, end)) in enumerate(zip(stored, bounds, strict=True)):
        reached = one.reached if one.topic_id in {"", topic.id} or not topic.id else None  # else: it was made again
        if reached is None and one.reached is None and (number < known if known else remembered):
            lost.append(number)
        elif reached is None:
            begin[number] = Reached(first)
        elif reached.offset > end:
            raise truncated(group, number)
        elif reached.offset < first:
            if max(reached.end, reached.offset) < first:
                _LOGGER.error(
                    "%s:%s: retention has removed offsets %s to %s before they were moved: retries among them are lost",
                    *(group, number, max(reached.end, reached.offset), first - 1),
                )
            begin[number] = Reached(first)
        else:
            begin[number] = reached
    if lost:
        raise JobStoppedError(
            f"Kafka has forgotten how far {_places(group, lost)} was moved, as it does after "
            f"offsets.retention.minutes: moving it again would do it twice. {_remedy(group, lost)}"
        )
    return begin


def truncated(group: str, number: int) -> JobStoppedError:
    """The error for a log that ends before what was moved from it."""
    return JobStoppedError(
        f"Kafka's brokers have lost records at the end of {_places(group, [number])} that had been moved already: "
        f"which of those there now have come since, nobody knows. {_remedy(group, [number])}"
    )


def _remedy(group: str, numbers: Iterable[int]) -> str:
    return (
        "Say where to go on, then start the job again: kafka-consumer-groups.sh --bootstrap-server ... --group "
        f"{group} --topic {_places(group, numbers)} --reset-offsets --to-datetime 2026-01-31T23:59:00.000 --execute, "
        "with the time (UTC) when the job last moved some; or --to-earliest: all that is there is tried again; or "
        "--to-latest: none of it."
    )


def _places(group: str, numbers: Iterable[int]) -> str:
    """The topic has the group's name."""
    return f"{group}:{','.join(map(str, numbers))}"
