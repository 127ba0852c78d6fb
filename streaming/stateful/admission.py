"""Half messages that keep the protocol and are not taken in: not allowed, of barred groups, delayed too long."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from access.verifying import Verifier
from checkback.wire.protocol import Topics
from conf.durations import spell
from state import Event, Rows, counted_for, delivered_uncounted
from state.rows import Column
from streaming.access.told import NotAllowed, told_policy
from streaming.fairness.barred import NOBODY, Barred, told


@dataclass(frozen=True)
class Admission:
    """What one batch does not take in."""

    now_ms: int
    """The batch's own time."""
    delay_max_ms: int
    barred: Barred = NOBODY
    """See :mod:`streaming.fairness.quotas`."""
    policy: NotAllowed | None = None
    """Of the access policy; None: there is none."""
    verifier: Verifier | None = None
    """Of signatures; None: nothing has to be signed."""
    retry_prefix: str = ""
    """Of the topics of retries; empty: they count for their groups."""

    def reasons(self, halves: Rows, held: Column) -> dict[int, str]:
        """By row, why half messages (``HALF_FIELDS``) are not taken in.

        ``held``: bool[n], which of them the job wrote itself: messages that their topics did not take. They have been
        taken in before, so no quota holds for them, nor a limit of the delay. The policy does: it may be another one
        since, and whoever may write to the half topic may write what looks like them.
        """
        found: dict[int, str] = {}
        if not self.barred.nobody:
            delayed = halves["deliver_at_ms"] > self.now_ms
            rows = np.flatnonzero(self._takes_room(halves, delayed) & ~held)
            groups = halves["group"][rows]
            retries = counted_for(groups, halves["topic"][rows], self.retry_prefix)
            names = np.where(halves["event"][rows] == Event.HALF, groups, retries)  # an undecided one is no retry
            of_group = self.policy.accounts_of if self.policy else None
            for row, name in zip(rows.tolist(), names.tolist(), strict=True):
                if reason := self.barred.reason(name, of_group, self.retry_prefix):
                    found[row] = reason
        late = (halves["deliver_at_ms"] > self.now_ms + self.delay_max_ms) & ~held
        for row in np.flatnonzero(late).tolist():
            found[row] = f"its cb-deliver-at is more than transactions.delay_max ({spell(self.delay_max_ms)}) ahead"
        return found | self._not_allowed(halves)

    def _not_allowed(self, halves: Rows) -> dict[int, str]:
        if self.policy is None:
            return {}
        pairs = list(zip(halves["group"].tolist(), halves["topic"].tolist(), strict=True))
        wrong = {pair: why for pair in set(pairs) if (why := self.policy.reason(*pair))}
        return {row: wrong[pair] for row, pair in enumerate(pairs) if pair in wrong} if wrong else {}

    @staticmethod
    def _takes_room(halves: Rows, delayed: Column) -> Column:
        # one that is committed already takes none, unless it is to wait: open, parked, and delayed ones do
        chosen: Column = (halves["event"] != Event.HALF_COMMIT) | delayed
        return chosen


def over_limit(delivery: Mapping[str, Any], own: Topics) -> str:
    """In a task: why a delivery that its topic does not take is not kept; empty: it is, or a limit has counted it."""
    if not delivered_uncounted(delivery):
        return ""
    policy, retries = told_policy(own), own.retry(delivery["group"])
    counted_for = retries if delivery["topic"] == retries else delivery["group"]
    return told().reason(counted_for, policy.accounts_of if policy else None, own.retry(""))
