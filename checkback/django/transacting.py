"""``transactional``: a message that is sent if, and only if, a database transaction of Django's commits."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, transaction

from checkback.django.databases import connection_of, refuse_inside
from checkback.django.process import producer, transaction_log
from checkback.exceptions import ConfigurationError, RecordLostError
from checkback.producing.blocks import refuse_lazy, refuse_lazy_result
from checkback.producing.scope import TransactionScope
from checkback.wire.protocol import Message, TransactionOptions

P = ParamSpec("P")
R = TypeVar("R")

Described = Message | Sequence[Message]

_NAME = "transactional()"


class TransactionalBlock(Generic[P]):
    """A database transaction with its message: a ``with`` block, or a decorator; made by :func:`transactional`."""

    def __init__(
        self, message: Described | Callable[P, Described], using: str, options: TransactionOptions | None
    ) -> None:
        self._message = message
        self._using = using
        self._options = options
        self._block: AbstractContextManager[TransactionScope] | None = None

    def __enter__(self) -> TransactionScope:
        if callable(self._message):
            raise ConfigurationError(
                "A function that makes the message is for @transactional: a block needs a message."
            )
        if self._block is not None:
            raise ConfigurationError("This transactional() has been entered before: make one for each block.")
        self._block = _block(self._message, self._using, self._options)
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        if self._block is None:
            raise ConfigurationError("This transactional() has not been entered.")
        return self._block.__exit__(kind, error, at)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Run the function in such a block each time; it returns None where it has raised :class:`Rollback`.

        Raises:
            ConfigurationError: it is a coroutine or a generator.
        """
        refuse_lazy(function)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
            message = self._message(*args, **kwargs) if callable(self._message) else self._message
            with _block(message, self._using, self._options):
                result = function(*args, **kwargs)
                refuse_lazy_result(result)
                return result
            return None

        return run


def transactional(
    message: Described | Callable[P, Described],
    using: str = DEFAULT_DB_ALIAS,
    *,
    options: TransactionOptions | None = None,
) -> TransactionalBlock[P]:
    """Send a message, or several, if and only if the database transaction around this code commits.

    ::

        with transactional(Message("orders", body)):
            Order.objects.create(...)

        @transactional(lambda order: Message("orders", order.body()))
        def pay(order): ...

    1. Write the half message, which nobody can see yet.  2. Begin ``transaction.atomic(using, durable=True)``.
    3. Record the transaction's id.  4. Run the code.  5. Commit, then tell the job. When the process dies before that,
    the job asks, and the database knows.

    :class:`Rollback` rolls both back and goes no further. Any other exception rolls the database back and goes on; a
    check then finds that nothing has happened.

    Args:
        message: one or several, or for a decorator a function of the same arguments that gives them.
        using: the database.
        options: check immunity, check max, time of delivery.

    Raises:
        ConfigurationError: it is inside another ``atomic`` of the database, or settings are wrong; nothing is written.
        HalfMessageError: Kafka did not take the half message; the code did not run.
        TransactionBlockedError: a check came before the record: nothing has happened.
        RecordLostError: the code has handled an error of the database, or called ``set_rollback(True)``; nothing has
            happened.
        CheckbackError, django.db.Error: the code has ended the database transaction itself; nothing has happened.
    """
    return TransactionalBlock(message, using, options)


@contextmanager
def _block(
    message: Described, using: str, options: TransactionOptions | None
) -> Generator[TransactionScope, Any, None]:
    log, connection = transaction_log(), connection_of(using)
    connection.rollback_exc = None  # of an earlier transaction, which Django keeps
    log.refuse_unknown(using)
    refuse_inside(connection, _NAME, "the message would be committed before the database is.")
    sends = producer()
    prepare = (
        partial(sends.prepare, message, options=options)
        if isinstance(message, Message)
        else partial(sends.prepare_several, message, options=options)
    )
    with TransactionScope(prepare, sends.end) as scope, transaction.atomic(using=using, durable=True):  # 1, 2
        log.record(scope.transaction_id, using=using)  # 3
        yield scope  # 4
        if connection.needs_rollback:  # atomic would roll back without a word
            raise RecordLostError(
                "Nothing is committed: the database transaction was marked for rollback, by an error of the database "
                "that was handled inside, or by set_rollback(True). Let errors leave the block, or keep them in an "
                "atomic() of their own; to roll back on purpose, raise checkback.django.Rollback."
            ) from connection.rollback_exc
        log.refuse_lost(scope.transaction_id, using=using)
