"""How people say times, numbers and reasons. All times are ms since 1970."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from checkback.operations.in_doubt import InDoubt
from checkback.wire.printable import printable
from status_page.facts import EndpointFacts, GroupFacts

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_REMARK_CHARACTERS = 200
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
NO_ENDPOINT = "no endpoint: none is announced, and the settings name none"


def duration(seconds: float) -> str:
    """``4 min 12 s``: the two largest units, none that is zero; tenths below ten seconds."""
    if seconds < 0.95:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rest = round(seconds)
    parts = []
    for size, unit in _UNITS:
        number, rest = divmod(rest, size)
        parts.append((number, unit))
    for first, second in pairwise(parts):
        if first[0]:
            return " ".join(f"{number} {unit}" for number, unit in (first, second) if number)
    return f"{parts[-1][0]} s"


def age(then_ms: int, now_ms: int) -> str:
    """How long ago something was; ``just now`` for the last second, and for what a clock puts into the future."""
    seconds = (now_ms - then_ms) // 1000
    if seconds < 1:
        return "just now"
    return f"{seconds} s" if seconds < 60 else duration(seconds)


def utc(time_ms: int) -> str:
    """``2026-11-22 09:30:00 UTC``; what no calendar has, as the number."""
    return _formatted(time_ms, "%Y-%m-%d %H:%M:%S UTC") or f"{time_ms} ms since 1970"


def machine_time(time_ms: int) -> str:
    """The same for programs: ``2026-11-22T09:30:00Z``; empty for what no calendar has."""
    return _formatted(time_ms, "%Y-%m-%dT%H:%M:%SZ")


def _formatted(time_ms: int, pattern: str) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(pattern)
    except (ValueError, OverflowError, OSError):
        return ""


UNKNOWN = "not known yet"


def number(value: float | None) -> str:
    """``12,345``; one digit behind the point below a hundred, unless it is a whole number; None is not known yet."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def count(value: int, one: str, many: str = "") -> str:
    """``1 record``, ``2 records``."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def size(value: int | None) -> str:
    """``12.3 KiB``; ``none`` for None."""
    if value is None:
        return "none"
    amount, unit = float(value), _BYTES[0]
    for unit in _BYTES:  # noqa: B007  (the last one is what is said)
        if amount < 1024:
            break
        amount /= 1024
    return f"{value:,} B" if unit == "B" else f"{amount:,.1f} {unit}"


class Reason(NamedTuple):
    """Why a transaction is not decided, as far as that is known."""

    kind: str
    cause: str
    """Empty: not known, or the kind says it."""

    def __str__(self) -> str:
        return f"{self.kind}{f'; {self.cause}' if self.cause else ''}"


def reason_of(row: InDoubt, group: GroupFacts | None) -> Reason:
    """The same for all that are in doubt for the same reason."""
    unheard = (group.unasked_for(row.topic) or why_unasked(group.endpoints)) if group else ""
    remark = clipped(printable(row.remark))
    if row.last_answer == "unreachable":
        return Reason("Nobody could be asked", unheard or remark)
    if unheard:
        return Reason("Nobody can be asked", unheard)
    if row.last_answer == "unknown":
        return Reason("Asked, no verdict", remark or "its producers did not know")
    if row.last_answer:
        return Reason(f"The last answer was {row.last_answer}", remark)
    return Reason("Asked for the first time, not answered yet", "")


def why_in_doubt(row: InDoubt, group: GroupFacts | None) -> str:
    """The same for this one: also how often."""
    reason = reason_of(row, group)
    if reason.kind == "Asked, no verdict":
        reason = reason._replace(kind=f"Asked {count(row.attempts, 'time')} of {row.check_max:,}, no verdict")
    return str(reason)


def said_attempts(row: InDoubt) -> str:
    """How often its producers were asked: a try at which nobody could be reached is none."""
    if row.last_answer == "unreachable":
        asked = f"asked {row.attempts:,} of {row.check_max:,}" if row.attempts else "not asked yet"
        tries = f", {row.misses:,} tries" if row.misses > 1 else ""
        return f"{asked}: nobody reachable{tries}"
    return f"{row.attempt:,} of {row.check_max:,}"


def clipped(text: str, most: int = _REMARK_CHARACTERS) -> str:
    """No longer than that."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def why_unasked(endpoints: Iterable[EndpointFacts]) -> str:
    """Why nobody of a group is asked; empty: somebody is, or nothing is known of its endpoints."""
    known = list(endpoints)
    if not known or any(one.state != "skipped" for one in known):
        return ""
    reason = known[0].reason
    skipped = "endpoint skipped" if len(known) == 1 else f"all {len(known)} endpoints skipped"
    return f"{skipped}: {reason}" if reason else skipped
