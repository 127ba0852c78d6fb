"""One micro-batch: what its tasks are told, and what they and the driver report."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from state import OpenByTopic, OpenOf, Tallies, Usages

K = TypeVar("K", bound=tuple[Any, ...])
OpenBySegment = dict[tuple[int, int], OpenByTopic]
"""What is undecided, by half partition and first offset of the segment."""

SIZES = frozenset({"read", "read_bytes", "state_bytes", "state_bytes_before"})
"""Counts of a batch that say how large it is, not what happened."""


def counts_to_json(counts: Mapping[K, int]) -> str:
    """For :func:`summed_counts`."""
    return json.dumps([[*key, number] for key, number in counts.items()])


def summed_counts(key_of: Callable[..., K], texts: Iterable[str]) -> Counter[K]:
    """The sum of what :func:`counts_to_json` gave; ``key_of`` makes a key of its fields."""
    summed = Counter[K]()
    for text in texts:
        for *fields_of_key, number in json.loads(text):
            summed[key_of(*fields_of_key)] += number
    return summed


def open_to_json(still_open: OpenBySegment) -> str:
    """For :func:`open_by_segment`."""
    return json.dumps([[*place, [[*key, *one] for key, one in pairs.items()]] for place, pairs in still_open.items()])


def open_by_segment(texts: Iterable[str]) -> OpenBySegment:
    """All segments of what :func:`open_to_json` gave; each is in one of them."""
    return {
        (partition, offset): {(group, topic): OpenOf(*numbers) for group, topic, *numbers in pairs}
        for text in texts
        for partition, offset, pairs in json.loads(text)
    }


class HeldUntil(NamedTuple):
    """Committed messages that their topic did not take, and that are tried again at the same time."""

    topic: str
    until_s: int
    """Of the job's time, in s since 1970, rounded down."""
    reason: str = ""
    """Why; empty where they have been tried again."""


HeldChanges = Counter[HeldUntil]
"""How many messages: more than 0 of those that are held now, less of those that have been tried again."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch, as every task of it knows it."""

    query_id: str
    number: int
    entry_hash: str
    every_partition_writes: bool
    """The first batch after a start, and one a day: so that progress offsets are there, and never expire."""
    floor: int = 0
    """A progress offset that every state partition has reached."""
    time_ms: int = 0
    """Its own time, which is the same when it is repeated."""
    dated_ms: int = 0
    """The time stamp of its records, by Kafka's clock as the driver knows it; 0: by the clock of the task's machine."""
    run: str = ""
    """Of the job, as the claim names it; empty: whoever runs it has claimed nothing."""


@dataclass
class PartitionReport:
    """What a task did, for :class:`streaming.sink.ExactlyOnceSink`: a row of whole numbers, booleans and texts."""

    partition: int
    written: int = 0
    skipped: bool = False
    counts: str = "{}"
    usages: str = "{}"
    """How the usage of producer groups has changed: numbers of :class:`state.Usage` by group."""
    reasons: str = "[]"
    """Why messages were held, parked or rejected: see :mod:`streaming.kafka_sink.reasons`."""
    tallies: str = "[]"
    """What is counted by producer group, or by how long it took: see :func:`summed_counts`."""
    still_open: str = "[]"
    """What is undecided in segments that have changed: see :func:`open_by_segment`."""
    held: str = "[]"
    """Which messages are held, and which of those held before were tried again: see :func:`summed_counts`."""
    refused: str = "[]"
    """How many records the access policy has refused: see :func:`summed_counts`."""
    staged: str = "[]"
    """Files that tables are to take: fields of :class:`streaming.tables.staging.StagedFile`."""


@dataclass(frozen=True)
class BatchReport:
    """What a batch did, for metrics and for people."""

    batch: int
    written: int
    skipped_partitions: int
    counts: Counter[str]
    published: Counter[str] = field(default_factory=Counter)
    """Rows by destination, where rules send messages to tables."""
    usages: Usages = field(default_factory=dict)
    """How the usage of producer groups has changed; like ``still_open`` also in state partitions that were skipped."""
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many messages were ``held``, ``parked`` or ``rejected``, and why."""
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict, kw_only=True)
    """Transaction ids of some of them."""
    tallies: Tallies = field(default_factory=Counter)
    """What is counted by producer group, or by how long it took."""
    still_open: OpenBySegment = field(default_factory=dict)
    """What is undecided in segments where that has changed."""
    held: Counter[tuple[str, int, str]] = field(default_factory=Counter, kw_only=True)
    """Messages held; less than 0 of those that were tried again: :class:`HeldUntil`."""
    refused: Counter[tuple[str, str, str]] = field(default_factory=Counter, kw_only=True)
    """Records that the access policy has refused: :class:`access.refusals.Refused`."""
    seconds: float = 0.0
    """From the batch's own time until it was written."""
