"""Stopping a command that runs until it is told to end."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set, instead of ending the process at once."""
    stopping = threading.Event()
    _on_signals(lambda *_: stopping.set())
    return stopping


def leave_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end the process at once, in order: for a time in which there is nothing to finish."""
    _on_signals(lambda *_: _leave())


def leave_within(seconds: float) -> None:
    """End the process after so long, in order, whatever still hangs: what it has in hand can be done again."""
    timer = threading.Timer(seconds, _leave)
    timer.daemon = True
    timer.start()


def _leave() -> None:
    sys.stdout.flush()
    os._exit(0)  # Spark's process ends when its standard input does


def _on_signals(handler: Callable[..., Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
