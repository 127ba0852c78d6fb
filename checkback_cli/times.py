"""Times as commands print them."""

from datetime import UTC, datetime


def said_time(ms: int) -> str:
    """``2026-11-22 09:30:00``, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
