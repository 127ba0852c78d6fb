"""What one producer group, and all of an account's, may have under way at once, so that nobody takes the room of all.

The driver sums what the tasks say has changed, and bars a group that is over a quota, or an account that is over a
limit: new half messages of it are rejected, with the reason, until it is well below. Nothing that was taken in is
touched.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from access.policy import AccessPolicy
from conf import QuotaSettings
from state import Usage, Usages, summed
from streaming.fairness.barred import RETRIES, Barred, accounts_of, barred_account

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)

_WELL_BELOW = 0.9
"""Of a quota: at which who is barred may continue. Else one at its quota would be let in and out with each batch."""
_AGAIN = "it is let in again below nine tenths"


@dataclass
class RunningTotal(Generic[T]):
    """What batches change, added up. Nobody knows it before :meth:`begin_with` has said what there was."""

    add: Callable[[T, T], T]
    now: T | None = field(init=False, default=None)
    """None: not known."""
    _known_from: int = field(init=False, default=-1)
    _since_start: list[tuple[int, T]] = field(init=False, default_factory=list)

    def changed(self, batch: int, by: T) -> None:
        """Take in what a batch has changed."""
        if self.now is None:
            self._since_start.append((batch, by))
        elif batch > self._known_from:
            self.now = self.add(self.now, by)

    def begin_with(self, batch: int, there: T) -> None:
        """Take in what there was when this batch had ended. Does nothing when it is known already."""
        if self.now is not None:
            return
        for number, by in self._since_start:
            if number > batch:
                there = self.add(there, by)
        self.now = there
        self._known_from = batch
        self._since_start.clear()


class _LimitedAccounts:
    """What the groups of accounts with limits have together; remembers whose a group is."""

    def __init__(self, retry_prefix: str) -> None:
        self._retry_prefix = retry_prefix
        self._policy: AccessPolicy | None = None
        self.limits: dict[str, dict[str, int]] = {}
        """By account."""
        self._of: dict[str, tuple[str, ...]] = {}
        """Accounts by group."""

    def barred(self, accounts: Mapping[str, str]) -> dict[str, str]:
        """Reasons by group, of those that were in the last ``usages``."""
        found = ((group, barred_account(accounts, of)) for group, of in self._of.items())
        return {group: why for group, why in found if why}

    def usages(self, usages: Usages, policy: AccessPolicy | None) -> Usages:
        """By account."""
        if policy is not self._policy:
            accounts = policy.accounts if policy is not None else {}
            limits = {name: given for name, one in accounts.items() if (given := one.limits.given)}
            self.limits = limits | {f"{name}{RETRIES}": given for name, given in limits.items()}
            self._policy, self._of = policy, {}
        if policy is None or not self.limits:
            return {}
        known = self._of
        prefix = self._retry_prefix
        of_group = policy.of_group
        self._of = {one: known[one] if one in known else accounts_of(of_group, one, prefix) for one in usages}
        parts = ((account, usages[group]) for group, accounts in self._of.items() for account in accounts)
        return summed([{account: usage} for account, usage in parts if account in self.limits])


@dataclass
class Quotas:
    """Who is over a quota. Nobody is barred, or let in again, before :meth:`begin_with` has said what there was."""

    settings: QuotaSettings
    retry_prefix: str = ""
    _total: RunningTotal[Usages] = field(init=False)
    _accounts: _LimitedAccounts = field(init=False)

    def __post_init__(self) -> None:
        self._accounts = _LimitedAccounts(self.retry_prefix)
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

    def barred(self, before: Barred, policy: AccessPolicy | None = None) -> Barred:
        """Whose new half messages are to be rejected from now on, given who was barred before."""
        if self._total.now is None:
            return before
        return Barred(
            _with_reasons("group {}", before.groups, dict(self._groups_over(before.groups))),
            _with_reasons("account {}'s groups", before.accounts, dict(self._accounts_over(before.accounts, policy))),
        )

    def barred_groups(self, barred: Barred) -> dict[str, str]:
        """Reasons by producer group, as far as groups are known."""
        return self._accounts.barred(barred.accounts) | dict(barred.groups)

    def _groups_over(self, before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        quotas = {name: int(getattr(self.settings, name)) for name in Usage._fields}
        for group, usage in sorted((self._total.now or {}).items()):
            over = _over(usage, quotas, _WELL_BELOW if group in before else 1.0)
            if over is not None:
                name, used = over
                yield group, f"group {group} has {used:,} of quotas.{name} = {quotas[name]:,}; {_AGAIN}"

    def _accounts_over(self, before: Mapping[str, str], policy: AccessPolicy | None) -> Iterator[tuple[str, str]]:
        for account, usage in sorted(self._accounts.usages(self._total.now or {}, policy).items()):
            limits = self._accounts.limits[account]
            over = _over(usage, limits, _WELL_BELOW if account in before else 1.0)
            if over is not None:
                name, used = over
                yield account, f"account {account} has {used:,} of its limits.{name} = {limits[name]:,}; {_AGAIN}"


def _over(usage: Usage, limits: Mapping[str, int], share: float) -> tuple[str, int] | None:
    """The first limit that is exceeded, by more than this share of it, and what there is."""
    for name, used in zip(Usage._fields, usage, strict=True):
        if name in limits and used > limits[name] * share:
            return name, used
    return None


def _with_reasons(who: str, before: Mapping[str, str], found: dict[str, str]) -> dict[str, str]:
    """What was found, with the reasons of those that were barred before; both changes are logged."""
    for name in found.keys() - before.keys():
        _LOGGER.warning("Half messages are rejected from now on: %s.", found[name])
    for name in before.keys() - found.keys():
        _LOGGER.warning("Half messages of %s are taken in again.", who.format(name))
    return {name: before.get(name, reason) for name, reason in found.items()}


def _in_use(usages: Usages) -> Usages:
    return {group: usage for group, usage in usages.items() if any(usage)}
