"""The inbox's rules, whoever speaks to the database: SQLAlchemy or Django."""

from datetime import UTC, datetime, timedelta

from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import MAX_GROUP_BYTES


def refuse_no_group(group: str) -> None:
    """Raises ConfigurationError unless this can be a consumer group."""
    if not 0 < len(group.encode()) <= MAX_GROUP_BYTES or "\0" in group:
        raise ConfigurationError(f"A group's name has 1 to {MAX_GROUP_BYTES} bytes; {group!r:.80} does not fit.")


def aged(older_than: timedelta, batch: int) -> datetime:
    """What is pruned was received before it.

    Raises:
        ConfigurationError: an argument is not above zero.
    """
    if older_than <= timedelta(0):
        raise ConfigurationError(f"older_than is {older_than}, must be longer than a message may come again.")
    if batch < 1:
        raise ConfigurationError(f"batch is {batch}, must be at least 1.")
    return datetime.now(UTC) - older_than
