"""Lanes of this process: whoever is asked about a half message of one here can say what has become of it."""

import os
from typing import NamedTuple, Protocol

from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action


class LaneAnswer(NamedTuple):
    """An answer to a check that needs nobody to be asked."""

    action: Action
    fact: LaneFact | None


class LaneOwner(Protocol):
    """Who delivers by a lane; called from any thread."""

    def known(self, request: CheckRequest) -> LaneAnswer | None:
        """What it says itself of a half message of its lanes; None: whoever knows the local transaction is to say."""

    def leaves(self, request: CheckRequest) -> bool:
        """Promise that no lane of it delivers this half message from now on, nor has; False: it cannot."""


_OWNERS: dict[tuple[int, str], LaneOwner] = {}
"""By process, since a forked child has its parent's memory and none of its lanes."""


def own(lane: str, owner: LaneOwner) -> None:
    """From now on checks of this lane's half messages that come to this process are the owner's."""
    _OWNERS[os.getpid(), lane] = owner


def disown(lane: str) -> None:
    """No more."""
    _OWNERS.pop((os.getpid(), lane), None)


def owner_of(lane: str) -> LaneOwner | None:
    """Whose lane it is; None: not this process's."""
    return _OWNERS.get((os.getpid(), lane)) if lane else None
