"""Lanes: transactional ids with which a producer delivers what it has committed itself.

What is known of a lane and a half message, ops say in a header, ``cb-delivered`` or ``cb-settled``, behind
``cb-source``. The answer to a check may say it in a field, when it is the lane's own process that is asked.

``docs/decisions/0029-the-direct-lane.md`` has the protocol.
"""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.wire.protocol import DELIVERED, LANE, SETTLED, Headers

ID_PREFIX = "checkback-lane:"
"""How the transactional id of each lane begins, and so the consumer group of its ledger: what ACLs are given for."""
LANE_DIGITS = 32
TRANSACTION_TIMEOUT_MS = 5_000
"""After that long Kafka ends a lane's transaction by itself, at one of its brokers' rounds (every 10 s)."""
_LANE = re.compile(r"[0-9a-f]{32}")
ANSWER_FIELD = "lane"
"""Beside ``state`` in an answer: a value of :class:`LaneFact`. Missing: the one asked does not know."""


def new_lane() -> str:
    """The name of a lane that nobody has used."""
    return os.urandom(LANE_DIGITS // 2).hex()


def is_lane(name: object) -> bool:
    """Whether this can be the ``cb-lane`` of a half message, as text."""
    return isinstance(name, str) and bool(_LANE.fullmatch(name))


def transactional_id(group: str, lane: str) -> str:
    """The transactional id of a lane, which is also the consumer group of its ledger.

    ``group`` is the half's own ``cb-group``: so no half can have another group's producers fenced, or the job's.

    Raises:
        ProtocolError: this is not a lane's name.
    """
    if not is_lane(lane):
        raise ProtocolError(f"{LANE} must be {LANE_DIGITS} hex digits in lower case, not {lane!r:.80}.")
    return f"{ID_PREFIX}{group}:{lane}"


def of_lane(headers: Headers, lane: str) -> list[tuple[str, bytes]]:
    """What :func:`~checkback.wire.protocol.half_headers` made, of a half message that names a lane."""
    return [*headers[:3], (LANE, lane.encode()), *headers[3:]]


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
