"""``producer.transaction(message, database=...)``: a database transaction inside the message's, in the right order."""

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from checkback.exceptions import ConfigurationError, RecordLostError
from checkback.listener import HalfMessage
from checkback.producing.scope import Delivery, End, Rollback, TransactionScope

S_co = TypeVar("S_co", covariant=True)


class TransactionDatabase(Protocol[S_co]):
    """What ``database=`` takes, made by ``of`` of a transaction log: the log, its table, and where connections are."""

    def scope(self, prepare: Callable[[], HalfMessage], end: End) -> S_co:
        """The block of one transaction."""


def refuse_no_database(database: object) -> None:
    """Raises ConfigurationError unless ``of`` has made it."""
    if not callable(getattr(database, "scope", None)):
        raise ConfigurationError(
            f"database= takes what a transaction log's of() gives, not {type(database).__name__}: write "
            "database=log.of(engine), or of a sessionmaker. Nothing was written."
        )


class DatabaseWork(Protocol):
    """A database transaction that is to be a message's local transaction."""

    def refuse_running(self) -> None:
        """Raises ConfigurationError where a database transaction runs already: it would be committed after the op."""

    def begin(self, transaction_id: str) -> None:
        """Begin it, and record the id in the log."""

    def finish(self) -> None:
        """Send all statements that are left."""

    def commit(self) -> None:
        """Commit. Whatever it raises, the database may have committed; not so RecordLostError: the record is gone."""

    def undone(self, error: BaseException) -> bool:
        """Roll back after an error; whether it is certain that the database has, and will have, nothing of it."""

    def close(self) -> None:
        """Give back what was opened. Never raises."""


class Ending:
    """What the op says when the database has had its word."""

    def __init__(self, end: End) -> None:
        self._end = end
        self.undone = False
        """Whether the database has nothing of it for certain."""

    def __call__(self, message: HalfMessage, error: BaseException | None) -> Delivery | None:
        """Write the op: *rollback* only for what is undone, whoever has raised what; else the check decides."""
        if error is None or (self.undone and isinstance(error, Rollback)):
            return self._end(message, error)
        said = f"the transaction's code raised {error!r}"
        return self._end(message, Rollback(said) if self.undone else RuntimeError(said))


class DatabaseScope(TransactionScope):
    """As :class:`~checkback.TransactionScope`, with a database transaction in it.

    1. Write the half message.  2. Begin the database transaction, and record the id in it.  3. Run the block.
    4. Commit the database.  5. Write the op.

    What is raised before 4 rolls both back at once, and goes on (:class:`Rollback` does not). When it is COMMIT that
    fails, or nobody knows whether the database has rolled back, the check decides.
    """

    def __init__(self, prepare: Callable[[], HalfMessage], end: End, work: DatabaseWork) -> None:
        self._ending = Ending(end)
        super().__init__(prepare, self._ending)
        self._work = work

    def __enter__(self) -> Self:
        """Steps 1 and 2; when they raise, the block does not run."""
        self._work.refuse_running()
        super().__enter__()  # 1
        try:
            self._work.begin(self.transaction_id)  # 2
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> bool:
        """Steps 4 and 5; raises what the database does."""
        raised = self._ended(error)
        goes_no_further = super().__exit__(type(raised) if raised else None, raised, None)
        if raised is not None and raised is not error and not goes_no_further:
            raise raised
        return goes_no_further

    def _ended(self, error: BaseException | None) -> BaseException | None:
        committing = False
        try:
            if error is None:
                self._work.finish()
                committing = True
                self._work.commit()  # 4
        except BaseException as failed:  # noqa: BLE001  (it is raised when the op is written)
            error = failed
        if error is not None:
            certain = not committing or isinstance(error, RecordLostError)
            self._ending.undone = self._work.undone(error) and certain
        self._work.close()
        return error
