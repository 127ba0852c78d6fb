"""What an inbox gives those who handle its messages: their session, and what was new. Needs the extra ``sql``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from checkback.exceptions import ConfigurationError, RecordLostError
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


class HandlerSession(Session):
    """The session of a handler, whose transaction is the listener's to commit."""

    _guarded = False
    _noted_in: object = None

    @contextmanager
    def given_away(self) -> Iterator[None]:
        """A handler has it meanwhile."""
        self._noted_in = self.get_transaction()
        self._guarded = True
        event.listen(self.connection(), "commit", self._refuse_commit_of)
        try:
            yield
        finally:
            self._guarded = False

    @property
    def was_rolled_back(self) -> bool:
        """Whether the transaction that it was given away with has ended."""
        return self.get_transaction() is not self._noted_in

    def refuse_commit(self) -> None:
        """Raise ConfigurationError where a handler commits; the end of a savepoint is none."""
        if self._guarded and not self.in_nested_transaction():
            raise ConfigurationError(
                "The handler has called commit(), and nothing was committed: the listener commits when the handler has "
                "returned, the effect and the memory of the message together. Take the commit() out; "
                "session.begin_nested() makes a savepoint."
            )

    def _refuse_commit_of(self, connection: Connection) -> None:
        if self._guarded:
            connection.connection.rollback()  # else the pool's next user would commit it
            self.refuse_commit()


event.listen(HandlerSession, "before_commit", HandlerSession.refuse_commit)
