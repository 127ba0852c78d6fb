"""Half messages that a consumer group has sent back and that cannot be tried again: they become its dead letters."""

from collections.abc import Sequence

from checkback.protocol import CUT, RESERVED_PREFIX, TOPIC, Topics, is_topic_name

Headers = Sequence[tuple[str, bytes | None]]

REASON = "checkback-reason"
"""Of a dead letter: why."""


def dead_letter_of(headers: Headers, topics: Topics, reason: str) -> tuple[str, list[tuple[str, bytes | None]]] | None:
    """The topic of the group's dead letters, and the headers it is to have there.

    None for a half message that is for another topic than a group's retry topic, or of which only the head is left.
    """
    found = dict(reversed(headers))
    wanted = (found.get(TOPIC) or b"").decode(errors="replace")
    group = wanted.removeprefix(topics.retry(""))
    dead = topics.dead(group)
    if group in {wanted, ""} or not is_topic_name(dead) or CUT in found:
        return None
    kept = [pair for pair in headers if not pair[0].startswith(RESERVED_PREFIX)]
    return dead, [*kept, (REASON, reason.encode())]
