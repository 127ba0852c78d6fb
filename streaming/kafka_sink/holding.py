"""Committed messages that their topics do not take: held and tried again, or left to operators.

Either way the sink writes them to the half topic, in the batch's own transaction, as a half message that carries its
own decision; the state machine then has it, once. See docs/decisions/0016-held-messages.md.
"""

from dataclasses import dataclass
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.wire import protocol
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import HalfAction, HalfPosition, HeldNote
from streaming.batch.headers import Headers, packed_headers, unpack_headers
from streaming.batch.record import Record
from streaming.batch.signing import Signing
from streaming.kafka_sink.topic_limits import Refusal

_FIRST_PAUSE_MS = 5_000
_LONGEST_PAUSE_MS = 600_000
_DAYS_3_MS = 3 * 24 * 3_600_000
HELD_MARK = f'"key":"{protocol.HELD}"'
"""Is in the packed headers of each half message that was held. A null ``cb-held`` has it, too, and counts as absent."""


def pause_ms(tries: int) -> int:
    """How long to wait after so many tries before this one: 5 s, doubling up to 10 min."""
    return min(_FIRST_PAUSE_MS * 2 ** min(tries, 20), _LONGEST_PAUSE_MS)


def held_of(headers: Headers) -> HeldNote | None:
    """What the job has noted in a half message; None in one that was never held."""
    written = own_headers(headers).get(protocol.HELD)
    if written is None:
        return None
    try:
        return HeldNote.parse(written.decode())
    except (ProtocolError, UnicodeDecodeError):  # streaming.stateful.decode lets none of these pass
        return None


def was_held(packed: str | None) -> bool:
    """Whether the half message with these headers was held: most are judged without parsing them."""
    return packed is not None and HELD_MARK in packed and held_of(unpack_headers(packed)) is not None


def held_until_s(headers: Headers) -> int:
    """Until when such a half message is held, in s since 1970, rounded down; 0 where it does not say."""
    said = own_headers(headers).get(protocol.DELIVER_AT, b"")
    return int(said) // 1000 if said.isdigit() else 0


def half_of(row: dict[str, Any]) -> HalfPosition:
    """Where the half message of a row of outcomes lies."""
    return HalfPosition(row["half_partition"], row["half_offset"])


def rejected_half(row: dict[str, Any], application: Headers, half_topic: str, why: str) -> dict[str, Any]:
    """The row that rejects the half message of a delivery that came in this batch, with its own decision.

    One of several messages is rejected alone, with headers of its own.
    """
    own = (protocol.ID, "transaction_id"), (protocol.GROUP, "group"), (protocol.TOPIC, "topic")
    ours: Headers = [(name, row[column].encode()) for name, column in own]
    packed = row["headers"]
    if ours[0] not in unpack_headers(packed):
        packed = packed_headers([*ours, (protocol.ACTION, HalfAction.COMMIT.encode()), *application])
    return {**row, "topic": half_topic, "headers": packed, "reason": f"{row['reason']}; {why}"}


@dataclass(frozen=True)
class Holding:
    """What becomes of such messages in one batch."""

    half_topic: str
    now_ms: int
    """The batch's own time."""
    redeliver_for_ms: int = _DAYS_3_MS
    signing: Signing | None = None
    """None: they are not signed."""

    def half(
        self, row: dict[str, Any], application: Headers, held: HeldNote | None, refusal: Refusal
    ) -> tuple[Record, bool]:
        """The half message to write instead of the delivery, and whether it will be tried again by itself.

        ``row`` is the outcome, with the reason for people; ``held`` what the half message that it came from says.
        """
        held = held or HeldNote(0, 0, half_of(row))
        since_ms = held.since_ms or self.now_ms
        again = refusal.passing and self.now_ms - since_ms < self.redeliver_for_ms
        noted = HeldNote(held.tries + 1, since_ms, held.origin) if again else HeldNote(0, 0, held.origin)
        partition = row["partition"]
        wait_ms = refusal.pause_ms or pause_ms(held.tries)
        ours: list[tuple[str, str]] = [
            (protocol.ID, row["transaction_id"]),
            (protocol.GROUP, row["group"]),
            (protocol.TOPIC, row["topic"]),
            *([(protocol.PARTITION, str(partition))] if partition >= 0 else []),
            (protocol.ACTION, HalfAction.COMMIT if again else HalfAction.PARK),
            *([(protocol.DELIVER_AT, str(self.now_ms + wait_ms))] if again else []),
            (protocol.HELD, str(noted)),
            (protocol.REASON, row["reason"]),
        ]
        headers: Headers = [*((name, text.encode()) for name, text in ours), *application]
        # on the partition it lies on now: so they stay spread as their producers spread them
        record = Record(self.half_topic, row["half_partition"], row["key"], row["value"], headers)
        return (record if self.signing is None else self.signing.signed(record)), again
