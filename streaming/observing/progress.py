"""What Spark says of a batch that has ended."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from status_page.facts import BatchFacts

_PHASES = {
    "latestOffset": "ask Kafka for its ends",
    "queryPlanning": "plan",
    "walCommit": "write offsets",
    "getBatch": "get batch",
    "addBatch": "evaluate and write",
    "commitOffsets": "note the end",
}
"""Spark's names of what takes time in a batch, and ours, in their order; ``triggerExecution`` is all of them."""

Places = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


@dataclass(frozen=True)
class BatchProgress:
    """A batch that has ended."""

    facts: BatchFacts
    read_to: Places
    """Where the next batch begins."""
    segments: int
    """That have state."""


def batch_progress(progress: Mapping[str, Any], waited_ms: int = 0) -> BatchProgress:
    """Of a ``StreamingQueryProgress``; the batch's last ``waited_ms`` were no work."""
    took = dict(progress["durationMs"] or {})
    for name in took.keys() & {"addBatch", "triggerExecution"}:
        took[name] -= waited_ms
    seconds = took.get("triggerExecution", 0) / 1000
    records = read_to = None
    for source in progress["sources"]:
        ends = _offsets(source["endOffset"])
        if ends is not None:
            records, read_to = source["numInputRows"], ends
    facts = BatchFacts(
        number=int(progress["batchId"]),
        ended_ms=_began_ms(progress["timestamp"]) + int(took.get("triggerExecution", 0)),
        seconds=seconds,
        phases={said: took[name] / 1000 for name, said in _PHASES.items() if name in took},
        records=records or 0,
        records_per_second=(records or 0) / seconds if seconds else 0.0,
    )
    segments = sum(operator["numRowsTotal"] for operator in progress["stateOperators"])
    return BatchProgress(facts, read_to or {}, segments)


def _began_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _offsets(said: Any) -> Places | None:
    """Kafka's; None of a source that is not Kafka."""
    found = json.loads(said) if isinstance(said, str) else said
    if not isinstance(found, Mapping):
        return None
    return dict(_flat(found))


def _flat(offsets: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[tuple[str, int], int]]:
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            yield (topic, int(partition)), int(offset)
