"""Times and durations as people read them, and how far two clocks are apart."""

from datetime import UTC, datetime
from itertools import pairwise

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def said_time(ms: int) -> str:
    """``2026-11-22 09:30:00``, in UTC, of ms since 1970; the number itself where no calendar has such a time."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def said_duration(ms: float) -> str:
    """``40 s``, ``3 min``, ``2 h 5 min``, ``4 d 3 h``: the two largest units; of less than a second ``0.3 s``."""
    if ms < 0:
        return f"-{said_duration(-ms)}"
    seconds = int(ms // 1000)  # not /: a number that somebody wrote may be too large for a float
    if not seconds:
        return f"{ms / 1000:.1f} s" if ms >= 100 else "0 s"
    for (unit, size), (smaller, small) in pairwise(_UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            rest //= small
            return f"{whole} {unit} {rest} {smaller}" if rest and unit != "min" else f"{whole} {unit}"
    return f"{seconds} s"


def difference_ms(asked_ms: int, kafka: int, heard_ms: int) -> int:
    """By how much a clock is ahead of Kafka's, at least, negative when it is behind.

    Kafka said its time after the clock showed ``asked_ms`` and before it showed ``heard_ms``.
    """
    return max(asked_ms - kafka, 0) + min(heard_ms - kafka, 0)
