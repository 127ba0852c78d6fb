"""Stopping a command that runs until it is told to end."""

import signal
import threading


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set, instead of ending the process at once."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
