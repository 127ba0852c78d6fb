"""What the check service says of producer groups: plain data."""

from typing import NamedTuple


class EndpointStanding(NamedTuple):
    """An endpoint, as it was found when it was asked last."""

    url: str
    state: str
    """``well``; ``skipped``: it failed five times and has not answered since, or fell silent; ``tried``: it failed
    lately, and is asked with the next check."""
    heard_seconds: float | None
    """Since its last heartbeat; None for one that is named in the settings."""
    reason: str
    """Why it is not well."""


class GroupStanding(NamedTuple):
    """A producer group."""

    waiting: int
    """Checks that wait, or are under way."""
    under_way: int
    """Requests under way."""
    endpoints: tuple[EndpointStanding, ...]
    """Those heard from last first, at most 20."""
    topics: tuple[str, ...] | None = None
    """Real topics for which one of them is asked that is not skipped, in order; None: all, or more than 100."""
