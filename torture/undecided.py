"""Which messages that did not come are lost, and which nobody has decided yet: two verdicts.

On a machine that is too slow for the faults it is given, transactions are still being checked when the time is over.
"""

import json
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.wire import protocol
from checkback.wire.protocol import Action, Topics

_COMMIT = Action.COMMIT.encode()


class Begun(NamedTuple):
    """How far a job has begun batches, as its checkpoint says."""

    time_ms: int
    """Of the last batch."""
    read: Mapping[str, Mapping[str, int]]
    """Where the next batch begins, by topic and partition."""

    def has_read(self, record: Any) -> bool:
        """Whether a record was in one of the batches."""
        return bool(record.offset < self.read.get(record.topic, {}).get(str(record.partition), 0))


def undecided(bootstrap_servers: str, checkpoint: Path, missing: Collection[str]) -> set[str]:
    """Those of these ids that the job has read no commit of, or that it holds until their topic takes them.

    ``missing`` are ids as consumers get them, of one message of several ``ID#2``.
    """
    topics, begun = Topics(), last_begun(checkpoint)
    with closing(reading_consumer(bootstrap_servers)) as consumer:
        committed = {
            _id(record)
            for record in records_to_end(consumer, topics.op)
            if _header(record, protocol.ACTION) == _COMMIT and begun.has_read(record)
        }
        held = {
            _id(record)
            for record in records_to_end(consumer, topics.half)
            if _header(record, protocol.HELD) and (not begun.has_read(record) or _due_ms(record) > begun.time_ms)
        }
    return {name for name in missing if name in held or name.partition("#")[0] not in committed}


def last_begun(checkpoint: Path) -> Begun:
    """What the newest entry of the checkpoint's offset log says."""
    batches = sorted(int(file.name) for file in (checkpoint / "offsets").glob("*") if file.name.isdigit())
    entries = [(checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8") for batch in batches[-2:]]
    whole = [entry.splitlines() for entry in entries if entry]  # a power loss may have left the last one empty
    if not whole:
        return Begun(0, {})
    _, about, *sources = whole[-1]
    read: dict[str, Mapping[str, int]] = {}
    for source in sources:
        if source.startswith("{"):
            read |= {topic: offsets for topic, offsets in json.loads(source).items() if isinstance(offsets, dict)}
    return Begun(int(json.loads(about)["batchTimestampMs"]), read)


def _due_ms(record: Any) -> int:
    return int(_header(record, protocol.DELIVER_AT) or b"0")


def _id(record: Any) -> str:
    return (_header(record, protocol.ID) or b"").decode(errors="replace")


def _header(record: Any, name: str) -> bytes | None:
    found: bytes | None = dict(record.headers).get(name)
    return found
