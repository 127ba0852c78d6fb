"""A decorated function must run inside its transaction, and not when the transaction has ended."""

import inspect
from collections.abc import Callable
from typing import Any

from checkback.exceptions import ConfigurationError


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
