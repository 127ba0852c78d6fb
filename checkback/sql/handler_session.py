"""The database session that an inbox gives to a handler. Needs the extra ``sql``."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session

from checkback.exceptions import ConfigurationError


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
