"""``with producer.transaction(...)``: a block of code as the local transaction."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.listener import HalfMessage

WAIT_SECONDS = 10.0


_B = TypeVar("_B")
_MOST = 10_000
"""Nobody asks about those whose message is committed in plain steps, without a block."""


def begun(what: _B | None, use_it: str = "as a context manager") -> _B:
    """What a block has once it has begun.

    Raises:
        CheckbackError: it has not.
    """
    if what is None:
        raise CheckbackError(f"The transaction has not begun: use it {use_it}.")
    return what


class Delivery(Protocol):
    """A committed transaction that the producer delivers itself."""

    def delivered(self, seconds: float) -> bool:
        """Wait until its messages can be read, for at most ``seconds``; False: then, or the job delivers them."""

    @property
    def left_to_job(self) -> bool:
        """Whether it is clear by now that the producer does not deliver them: the job does."""


End = Callable[[HalfMessage, BaseException | None], Delivery | None]
"""Ends a half message's transaction, given what the block has raised."""


class Rollback(Exception):  # noqa: N818  (it is not an error, it is an answer)
    """Raised inside a transaction's block: it has not happened, nobody shall see its messages. Goes no further."""


class TransactionScope:
    """A half message is written on entry, and the op on the way out.

    Leaving normally commits. :class:`Rollback` rolls back, and is swallowed. Any other exception leaves the outcome
    *unknown*, since the database may have committed: the check decides. It is raised on.
    """

    def __init__(self, prepare: Callable[[], HalfMessage], end: End) -> None:
        self._prepare = prepare
        self._end = end
        self._message: HalfMessage | None = None
        self._delivery: Delivery | None = None
        self._committed = False

    @property
    def message(self) -> HalfMessage:
        """The half message, which Kafka has.

        Raises:
            CheckbackError: before entry.
        """
        return begun(self._message)

    @property
    def transaction_id(self) -> str:
        """What the local transaction leaves in the database, so that a check finds it."""
        return self.message.transaction_id

    def delivered(self, seconds: float = WAIT_SECONDS) -> bool:
        """After the block: wait until Kafka has committed the messages, for at most ``seconds``.

        Consumers read them some ms later.

        False: not yet, or not known here, since the job delivers them; always so without ``delivery="direct"``.
        """
        return self._delivery is not None and self._delivery.delivered(seconds)

    @property
    def left_to_job(self) -> bool:
        """Whether it is clear by now that the job, not the producer, delivers them; never so of what is rolled back."""
        return self._committed and (self._delivery is None or self._delivery.left_to_job)

    def __enter__(self) -> Self:
        """Write the half message; when that raises, the block does not run."""
        if self._message is not None:
            raise CheckbackError("A transaction can begin only once: ask the producer for another one.")
        self._message = self._prepare()
        forget_recorded(self.transaction_id)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        """Write the op. What is lost here, the check finds out.

        Raises:
            ConfigurationError: the block has recorded the message's id in a database transaction that is not committed:
                it is around the block, or its commit was forgotten.
        """
        if error is not None:  # the database may have rolled back, and the op says so
            forget_recorded(self.transaction_id)
        else:
            try:
                refuse_uncommitted(self.transaction_id)
            except ConfigurationError as wrong:
                self._end(self.message, wrong)
                raise
        self._delivery = self._end(self.message, error)
        self._committed = error is None
        return isinstance(error, Rollback)


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
