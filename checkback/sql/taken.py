"""Messages that an inbox has taken in a database transaction, and whether that went on. Needs the extra ``sql``."""

from typing import Generic, TypeVar

from sqlalchemy import Connection

from checkback.exceptions import RecordLostError
from checkback.sql.commit_guard import ExpectedRows, hears_commit

M = TypeVar("M")


class Taken(Generic[M]):
    """What :class:`~checkback.sql.inbox.SqlInbox` gives the block of ``once``.

    Args:
        messages: those that are new.
        connection: in whose transaction their rows were written; None: none were.
        expected: those rows.
    """

    def __init__(
        self, messages: list[M], connection: Connection | None = None, expected: ExpectedRows | None = None
    ) -> None:
        self.messages = messages
        self._expected = expected
        self._connection = connection if connection is not None and hears_commit(connection) else None
        self._transaction = self._connection.get_transaction() if self._connection is not None else None

    def refuse_lost(self) -> None:
        """Make sure, at the end of the block, that the transaction with the rows is running, or was committed.

        Raises:
            RecordLostError: it was rolled back inside: what was done since would have its effect again.
        """
        if self._connection is None or self._expected is None or self._expected.committed:
            return
        if self._connection.get_transaction() is not self._transaction:
            raise RecordLostError(
                "The database transaction with the note of the message was rolled back inside the block: its effect "
                "is gone, and the message comes again. Let errors leave the block, or keep them in a savepoint "
                "(begin_nested); SqlInbox.handler allows rollback()."
            )
