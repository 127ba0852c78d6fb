"""A check that was taken, and what it may come to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkback.wire.checks import CheckRequest
from checkback.wire.limits import content_bytes
from checkback.wire.protocol import HalfPosition
from checkers.ask import REQUEST_BYTES, EndpointVerdict
from checkers.settling import Settle

_OWN_BYTES = 1_024  # about what a check costs in memory beside its message


@dataclass(slots=True)
class Check:
    """A check that was taken, and what it has been through."""

    request: CheckRequest
    origin: Any = None
    """The caller's: where the check came from."""
    tried: tuple[str, ...] = ()
    """URLs that could not be reached for it."""
    remark: str = ""
    """What the last of them did."""
    unsigned: bool = False
    """One of them has answered without the signature of the group's key, or not at all: if no other does, *unknown*."""
    alone: bool = False
    """It is not to be asked together with others."""
    answered: bool = False
    """That nobody could be asked has been answered before."""
    newer: "Check | None" = None
    """Another check of the same transaction, which came while this one waits or is under way."""
    size: int = field(init=False)
    """About how many bytes it holds."""

    def __post_init__(self) -> None:
        one, messages = self.request, self.request.messages
        self.size = _OWN_BYTES + content_bytes(one.key, one.value, one.headers)
        self.size += sum(content_bytes(each.key, each.value, each.headers) for each in messages)
        if self.size * 4 // 3 > REQUEST_BYTES:  # it would not be asked whole: it is not kept whole, either
            self.request = self.request.head()
            self.size = _OWN_BYTES

    @property
    def transaction(self) -> tuple[HalfPosition, str]:
        """Names it among those of its group."""
        return self.request.half, self.request.transaction_id


class CheckEnds(NamedTuple):
    """What a check comes to: a verdict, or that it waits, for a reason.

    ``keep``: both; the verdict is *unreachable*, and the check is to be asked when somebody is there.
    ``drop``: another check of the same transaction has just been answered, which answers this one as well.
    """

    answer: Callable[[Check, EndpointVerdict], None]
    postpone: Callable[[Check, str], None]
    keep: Callable[[Check, EndpointVerdict], None]
    drop: Callable[[Check], None]
    asked: Callable[[str, float], None]
    """Told for how many seconds an endpoint of a group was asked."""
    settle: Settle
    """Asked before a verdict, or that nobody can be asked, is told to the others."""
