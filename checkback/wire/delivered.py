"""What is known of a lane and a half message: whether the lane has delivered it, or never will.

Ops say it in a header, ``cb-delivered`` or ``cb-settled``, behind ``cb-source``. The answer to a check may say it in a
field, when it is the lane's own process that is asked.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from checkback.wire.protocol import DELIVERED, SETTLED, Headers

ANSWER_FIELD = "lane"
"""Beside ``state`` in an answer: a value of :class:`LaneFact`. Missing: the one asked does not know."""


class LaneFact(StrEnum):
    """What has become of a half message on its lane. It stays true, whoever says it."""

    DELIVERED = "delivered"
    """A transaction of the lane that has committed has its messages. Only with ``commit``."""
    SETTLED = "settled"
    """The lane has not delivered it, and never will."""

    @property
    def header(self) -> tuple[str, bytes]:
        """As an op has it."""
        return (DELIVERED if self is LaneFact.DELIVERED else SETTLED), b"1"


def stating(headers: Headers, fact: LaneFact | None) -> list[tuple[str, bytes]]:
    """What :func:`~checkback.wire.protocol.op_headers` made, with the fact that the op rests on."""
    return [*headers] if fact is None else [*headers, fact.header]


def fact_answered(body: Mapping[str, Any]) -> LaneFact | None:
    """The fact in an answer to a check; None where it says none, or none that we know."""
    said = body.get(ANSWER_FIELD)
    return LaneFact(said) if isinstance(said, str) and said in tuple(LaneFact) else None
