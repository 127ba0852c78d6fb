"""Half messages that a consumer group has sent back: when each is tried again, and dead letters of all others."""

from collections.abc import Sequence

from checkback.wire.own_headers import own_headers, wrong_with_own
from checkback.wire.protocol import (
    ACTION,
    CUT,
    DELIVER_AT,
    GROUP,
    HELD,
    MAX_MS_DIGITS,
    MESSAGES,
    RESERVED_PREFIX,
    TOPIC,
    HalfAction,
    Topics,
    is_topic_name,
)

Headers = Sequence[tuple[str, bytes | None]]

REASON = "checkback-reason"
"""Of a dead letter: why."""
PAUSE = "checkback-pause"
"""Of a record of ``cb.later``: for how many ms it is not to be tried again, counted from when Kafka has it."""


def due_after_pause(headers: Headers, written_ms: int) -> list[tuple[str, bytes | None]]:
    """The headers for ``cb.half`` of a record that Kafka took at ``written_ms``, by its own clock.

    A consumer says by its clock when to deliver it, and how long the pause is. Only the pause is right where that clock
    is wrong: two hours behind, each try would follow the last one at once.
    """
    pauses = [content for name, content in headers if name == PAUSE]
    others = [pair for pair in headers if pair[0] != PAUSE]
    pause = pauses[0] if len(pauses) == 1 else None
    if not pause or not pause.isdigit() or len(pause) > MAX_MS_DIGITS or written_ms <= 0:
        return others
    due = str(min(written_ms + int(pause), 10**MAX_MS_DIGITS - 1)).encode()
    return [(name, due if name == DELIVER_AT else content) for name, content in others]


def dead_letter_of(headers: Headers, topics: Topics, reason: str) -> tuple[str, list[tuple[str, bytes | None]]] | None:
    """The topic of the group's dead letters, and the headers it is to have there.

    None for a half message that is for another topic than the retry topic of its own group, or of which only the head
    is left: nobody puts anything among the dead letters of others.
    """
    found = own_headers(headers)
    wanted = found.get(TOPIC, b"").decode(errors="replace")
    group = wanted.removeprefix(topics.retry(""))
    dead = topics.dead(group)
    if group in {wanted, ""} or found.get(GROUP) != group.encode() or not is_topic_name(dead) or CUT in found:
        return None
    kept = [pair for pair in headers if not pair[0].startswith(RESERVED_PREFIX)]
    return dead, [*kept, (REASON, reason.encode())]


def why_not_a_retry(headers: Headers, topics: Topics) -> str:
    """Why this record of ``cb.later`` is not what a consumer group wants again itself; empty where it is.

    Consumers may write that topic and the job may write to every other: it moves nothing there for a topic that the
    writer could not have chosen as a consumer of that group.
    """
    if repeated := wrong_with_own(headers):
        return f"a record of {topics.later} follows the protocol: {repeated}"
    ours = own_headers(headers)
    for name in (MESSAGES, HELD):  # no limit holds for what the job itself has held
        if name in ours:
            return f"a record of {topics.later} has one message, and no {name}"
    group = ours.get(GROUP, b"").decode(errors="replace")
    if not group or ours.get(TOPIC) != topics.retry(group).encode():
        return (
            f"a record of {topics.later} is for the retries of its own group: {TOPIC} is {topics.retry('<cb-group>')}"
        )
    if ours.get(ACTION) != HalfAction.COMMIT.encode():
        return f"a record of {topics.later} is decided: {ACTION} is {HalfAction.COMMIT}"
    return ""
