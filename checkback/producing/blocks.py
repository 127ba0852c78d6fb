"""A producer's blocks: code that is the local transaction of one message, or of several."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from checkback.exceptions import ConfigurationError
from checkback.listener import HalfMessage
from checkback.producing.database_scope import TransactionDatabase, refuse_no_database
from checkback.producing.scope import Delivery, TransactionScope
from checkback.wire.protocol import Message, TransactionOptions

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=TransactionScope)

Described = Message | Sequence[Message]


class TransactionBlocks(ABC):
    """``transaction`` and ``transactional`` of a :class:`~checkback.TransactionProducer`."""

    @abstractmethod
    def prepare(self, message: Message, *, options: TransactionOptions | None = None) -> HalfMessage:
        """Write a half message."""

    @abstractmethod
    def prepare_several(self, messages: Sequence[Message], *, options: TransactionOptions | None = None) -> HalfMessage:
        """Write several messages as one half message."""

    @abstractmethod
    def end(self, message: HalfMessage, error: BaseException | None) -> Delivery | None:
        """End its transaction."""

    @overload
    def transaction(self, message: Described, *, options: TransactionOptions | None = None) -> TransactionScope: ...
    @overload
    def transaction(
        self, message: Described, *, database: TransactionDatabase[S], options: TransactionOptions | None = None
    ) -> S: ...
    def transaction(
        self,
        message: Described,
        *,
        database: TransactionDatabase[Any] | None = None,
        options: TransactionOptions | None = None,
    ) -> Any:
        """A transaction around a block: ``with producer.transaction(message) as transaction: ...``.

        The half message is written on entry; see :class:`~checkback.TransactionScope` for how it ends. Arguments and
        errors as in ``send_in_transaction``; no listener is needed.

        Args:
            message: what consumers will get: one, or a list of which all are delivered or none.
            database: ``log.of(...)`` of a transaction log: the block is also a database transaction, which has the
                message's id in the log and is committed before the message is. What the block gets has ``session`` or
                ``connection``.
            options: check immunity, check max, time of delivery.
        """
        prepare = self.preparing(message, options)
        if database is None:
            return TransactionScope(prepare, self.end)
        refuse_no_database(database)
        return database.scope(prepare, self.end)

    @overload
    def transactional(
        self, describe: Callable[P, Described]
    ) -> Callable[[Callable[Concatenate[TransactionScope, P], R]], Callable[P, R | None]]: ...
    @overload
    def transactional(
        self, describe: Callable[P, Described], *, database: TransactionDatabase[S]
    ) -> Callable[[Callable[Concatenate[S, P], R]], Callable[P, R | None]]: ...
    def transactional(
        self, describe: Callable[P, Described], *, database: TransactionDatabase[Any] | None = None
    ) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[P, R | None]]:
        """Decorate a function that is a local transaction, and gets what ``transaction`` gives a block first.

        ``describe``, called with the same arguments, gives the message or the messages. The decorated function
        returns None when :class:`~checkback.Rollback` was raised.

        Raises:
            ConfigurationError: the function is a coroutine or a generator, and would run after its transaction.
        """

        def decorate(function: Callable[Concatenate[Any, P], R]) -> Callable[P, R | None]:
            refuse_lazy(function)

            @wraps(function)
            def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
                described = describe(*args, **kwargs)
                scope: Any = self.transaction(described, database=database) if database else self.transaction(described)
                with scope:
                    result = function(scope, *args, **kwargs)
                    refuse_lazy_result(result)
                    return result
                return None

            return run

        return decorate

    def preparing(self, message: Described, options: TransactionOptions | None) -> Callable[[], HalfMessage]:
        """What writes the half message."""
        if isinstance(message, Message):
            return partial(self.prepare, message, options=options)
        return partial(self.prepare_several, message, options=options)


def refuse_lazy(function: Callable[..., Any]) -> None:
    """Raises ConfigurationError for a coroutine or a generator: called, it has not begun yet."""
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise ConfigurationError(
            f"{getattr(function, '__name__', function)} is a coroutine or a generator, which would run after its "
            "transaction has committed: decorate a plain 'def'. In asyncio use 'async with producer.transaction(...)' "
            "of AsyncTransactionProducer."
        )


def refuse_lazy_result(result: object) -> None:
    """Raises TypeError for what a plain function has made, and nobody has run yet; inside the transaction."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            f"The decorated function has given a {type(result).__name__}, which would run after its transaction has "
            "committed. Nothing is committed."
        )
