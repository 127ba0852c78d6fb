"""Whether a database transaction that has recorded a message's id was committed before the message is."""

import threading
from typing import Protocol

from checkback.exceptions import ConfigurationError

_MOST = 10_000
"""Nobody asks about those whose message is committed in plain steps, without a block."""


class Recorded(Protocol):
    """A record that a transaction log has written."""

    @property
    def committed(self) -> bool:
        """Whether the database has answered the COMMIT of its transaction."""


_OF: dict[str, dict[object, Recorded]] = {}
"""By the id and the log: another try may record an id again there, and the last one counts."""
_CHANGING = threading.Lock()


def note_recorded(transaction_id: str, log: object, recorded: Recorded) -> None:
    """A log has written an id."""
    with _CHANGING:
        if len(_OF) >= _MOST:
            del _OF[next(iter(_OF))]
        _OF.setdefault(transaction_id, {})[log] = recorded


def forget_recorded(transaction_id: str) -> None:
    """A block begins: whatever was recorded under its id before is none of its business."""
    with _CHANGING:
        _OF.pop(transaction_id, None)


def refuse_uncommitted(transaction_id: str) -> None:
    """Make sure that the database transaction with the record, if this process knows it, was committed. Once only.

    Raises:
        ConfigurationError: it was not; it may run still, so nobody knows whether it will be.
    """
    with _CHANGING:
        recorded = _OF.pop(transaction_id, {})
    if not all(one.committed for one in recorded.values()):
        raise ConfigurationError(
            f"The database transaction in which {transaction_id} is recorded has not been committed, so the message is "
            "not, either; a check will find out. Commit it inside 'with producer.transaction(...)', or have that do "
            "it: database=log.of(engine)."
        )
