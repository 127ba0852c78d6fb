"""What one producer group may have under way at once, so that no group takes the room of all.

The driver sums what the tasks say has changed, and bars a group that is over a quota: new half messages of it are
rejected, with the reason, until it is well below. Nothing that was taken in is touched.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from conf import QuotaSettings
from state import Usage, Usages, summed
from streaming.fairness.running_total import RunningTotal

_LOGGER = logging.getLogger(__name__)

Barred = dict[str, str]
"""Reasons by producer group."""

_WELL_BELOW = 0.9
"""Of a quota: at which a barred group may continue. Else one at its quota would be let in and out with each batch."""


@dataclass
class Quotas:
    """Who is over a quota. Nobody is barred, or let in again, before :meth:`begin_with` has said what there was."""

    settings: QuotaSettings
    _total: RunningTotal[Usages] = field(init=False)

    def __post_init__(self) -> None:
        self._total = RunningTotal(lambda usages, by: _in_use(summed([usages, by])))

    def changed(self, batch: int, usages: Usages) -> None:
        """Take in what a batch has changed."""
        self._total.changed(batch, usages)

    def begin_with(self, batch: int, usages: Usages) -> None:
        """Take in what there was when this batch had ended."""
        self._total.begin_with(batch, usages)

    @property
    def now(self) -> Usages | None:
        """What all groups have; None when it is not known yet."""
        return self._total.now

    def of_group(self, group: str) -> Usage:
        """What a group has, as far as is known."""
        return (self._total.now or {}).get(group, Usage())

    def barred(self, before: Mapping[str, str]) -> Barred:
        """Whose new half messages are to be rejected from now on, given who was barred before."""
        if self._total.now is None:
            return dict(before)
        found: Barred = {}
        for group, usage in sorted(self._total.now.items()):
            reason = self._over(group, usage, _WELL_BELOW if group in before else 1.0)
            if reason is not None:
                found[group] = before.get(group, reason)
        for group in found.keys() - before.keys():
            _LOGGER.warning("Half messages are rejected from now on: %s.", found[group])
        for group in before.keys() - found.keys():
            _LOGGER.warning("Half messages of group %s are taken in again.", group)
        return found

    def _over(self, group: str, usage: Usage, share: float) -> str | None:
        for name, used in zip(Usage._fields, usage, strict=True):
            quota = getattr(self.settings, name)
            if used > quota * share:
                return f"group {group} has {used:,} of quotas.{name} = {quota:,}; it is let in again below nine tenths"
        return None


def _in_use(usages: Usages) -> Usages:
    return {group: usage for group, usage in usages.items() if any(usage)}
