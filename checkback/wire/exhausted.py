"""What an application can say of messages that were checked in vain as often as check_max allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Decision(StrEnum):
    """What becomes of such a message."""

    PARK = "park"
    """To ``cb.parked``: an operator decides (RocketMQ's TRANS_CHECK_MAX_TIME_TOPIC)."""
    COMMIT = "commit"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class ExhaustedMessage:
    """A message whose checks gave no verdict."""

    transaction_id: str
    group: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    attempts: int
    ingested_ms: int
    """When the half message was taken in by the job, in ms since 1970."""
    left_out: int = 0
    """Bytes that are not here, since the job keeps none of more than 4 KiB: then ``value`` is None, and ``headers`` are
    empty where these and the key have more than that by themselves. ``key`` is None if it alone has more."""


@runtime_checkable
class ExhaustedListener(Protocol):
    """Named by the setting ``transactions.on_exhausted`` as ``module:Class``; made without arguments.

    RocketMQ's ``AbstractTransactionalMessageCheckListener`` in the broker. It runs in the job's Python workers.
    """

    def decide(self, message: ExhaustedMessage) -> Decision:
        """Decide by the message alone: a batch that is run again must come to the same. Raising parks it."""
