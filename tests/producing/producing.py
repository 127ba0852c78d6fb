"""Listeners for the tests of a producer."""

from collections.abc import Callable
from typing import Any

from checkback import (
    CallableListener,
    CheckRequest,
    HalfMessage,
    LocalTransactionState,
)

COMMIT, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.UNKNOWN


def listener(execute: Callable[[HalfMessage, Any], LocalTransactionState]) -> CallableListener:
    def check(_: CheckRequest) -> LocalTransactionState:
        raise NotImplementedError

    return CallableListener(execute, check)


class Recorder:
    """Local transactions that commit, and are remembered."""

    def __init__(self) -> None:
        self.ran: list[tuple[HalfMessage, Any]] = []

    def __call__(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        self.ran.append((message, arg))
        return COMMIT
