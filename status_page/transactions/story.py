"""The hook for a transaction's whole story: half message, checks, answers, decision, delivery."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from checkback.wire.protocol import HalfPosition


class Told(NamedTuple):
    """One thing that happened to a transaction."""

    time_ms: int
    """When, in ms since 1970."""
    what: str
    """In a few words: ``half message``, ``checked``, ``answered``."""
    detail: str = ""
    """A sentence, without payloads."""
    place: str = ""
    """The record that says so: ``cb.half:3:4711``; empty: none does."""


Story = Callable[[HalfPosition], Iterable[Told]]
"""Reads it from Kafka, which may take seconds.

Raises:
    CheckbackError: Kafka does not answer.
"""
