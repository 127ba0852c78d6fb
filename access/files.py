"""The files of ``access.policy`` and ``access.secrets``: one set of rules for the job, check services and gateways."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from access.marked import OwnKey, marked
from access.policy import AccessPolicy, Account, doubts, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey
from conf.secrets_file import UnreadableFileError, read_keys
from conf.settings import AccessSettings

_LOGGER = logging.getLogger(__name__)
_SETTLED_SECONDS = 1.0
"""Unchanged for so long a file is not being written any more: half of one may be lawful, and mean another thing."""

Stamp = tuple[int, ...]
"""Equal while the files are the same."""


class PolicyAndKeys(NamedTuple):
    """A policy, and the secrets of the keys that are trusted."""

    policy: AccessPolicy
    keys: Mapping[str, SigningKey]

    @property
    def lacking(self) -> frozenset[str]:
        """Keys of accounts with groups that have no secret here."""
        named = {key for account in self.policy.accounts.values() if account.groups for key in account.keys}
        return frozenset(named - self.keys.keys())

    def without_revoked(self, newer: AccessPolicy, own_id: str) -> "PolicyAndKeys":
        """The same policy without keys that have fewer rights in a newer one, or none.

        A group keeps its keys' ids, so its records still need a signature. The job's own key stays: without it every
        message that the job holds would be rejected.
        """
        keys = {key: account for account in newer.accounts.values() for key in account.keys}
        trusted = {own_id}
        for account in self.policy.accounts.values():
            trusted.update(key for key in account.keys if _covers(keys.get(key), account))
        return self._replace(keys={key: secret for key, secret in self.keys.items() if key in trusted})


class PolicyFiles:
    """Reads the files again once they have changed and then stayed the same for a second.

    Files that cannot be used change nothing, with one exception: if only secrets are missing, the keys that the policy
    no longer names lose their trust at once.

    Args:
        access: the settings that name the files.
        clock: gives seconds and does not run backwards.
        own: the job's key; its policy needs the secrets of all keys. None: a key without a secret signs nothing.

    Raises:
        ConfigurationError: a file cannot be read at the start, or cannot be used.
    """

    def __init__(
        self, access: AccessSettings, clock: Callable[[], float] = monotonic, own: OwnKey | None = None
    ) -> None:
        self._policy, self._secrets, self._own = Path(access.policy), access.secrets, own
        self._paths = [Path(name) for name in (access.policy, access.secrets) if name]
        self._clock = clock
        self._seen: tuple[Stamp | None, float] = (None, 0.0)
        """The files as they were last looked at, and since when."""
        self.wrong = ""
        """Why the files as they are now are not in force; empty: they are."""
        try:
            self._judged: tuple[Stamp, str] = self._stamp(), ""
            """The files that were read last, and why they are not in force."""
            self._in_force = self._read()
        except OSError as error:
            raise self._unreadable(error) from None
        if why := self._hindrance(self._in_force):
            raise ConfigurationError(why)
        if self._in_force.lacking:
            lacking = ", ".join(sorted(self._in_force.lacking))
            _LOGGER.warning("access.secrets has no secret of %s: records signed with it are not trusted.", lacking)

    def now(self) -> PolicyAndKeys:
        """What holds now: the same object until it changes. Mostly it only checks the files' dates and sizes."""
        try:
            stamp = self._stamp()
            if stamp == self._judged[0]:
                self._report(self._judged[1])
            elif self._settled(stamp):
                self._judge(stamp)
        except OSError as error:  # it may pass without a change of the files
            self._report(str(self._unreadable(error)))
        except UnreadableFileError as error:
            self._report(str(error))
        return self._in_force

    def _judge(self, stamp: Stamp) -> None:
        in_force = self._in_force
        try:
            read = self._read()
            self._refuse_removal(read.policy)
        except UnreadableFileError:
            raise
        except ConfigurationError as error:
            why = str(error)
        else:
            why = self._hindrance(read)
            if why:
                why = f"{why}. Keys that the file no longer names are not trusted any more."
                in_force = in_force.without_revoked(read.policy, "" if self._own is None else self._own.id)
            else:
                in_force = read
        if self._stamp() == stamp:
            self._judged, self._in_force = (stamp, why), in_force
            self._report(why)

    def _refuse_removal(self, policy: AccessPolicy) -> None:
        before = self._in_force.policy.accounts.keys()
        removed = before - policy.accounts.keys()
        if policy.account_count is None and 2 * len(removed) > len(before):
            raise ConfigurationError(
                f"access.policy: {self._policy} no longer names {len(removed)} of {len(before)} accounts, so it may "
                f"have been truncated. If you removed them, write account_count = {len(policy.accounts)} at its top."
            )

    def _hindrance(self, read: PolicyAndKeys) -> str:
        if self._own is None:
            lacking = read.lacking - self._in_force.lacking
            return f"access.secrets has no secret of {', '.join(sorted(lacking))}" if lacking else ""
        try:
            marked(read.policy, read.keys, self._own)
        except ConfigurationError as error:
            return f"access.policy: {self._policy}: {error}"
        return ""

    def _read(self) -> PolicyAndKeys:
        keys = read_keys(self._secrets)
        try:
            policy = policy_of(self._policy.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ConfigurationError) as error:
            raise ConfigurationError(f"access.policy: {self._policy}: {error}") from None
        for doubt in doubts(policy):
            _LOGGER.warning("access.policy: %s: %s", self._policy, doubt)
        return PolicyAndKeys(policy, keys)

    def _report(self, why: str) -> None:
        if why not in {"", self.wrong}:
            _LOGGER.error("The access policy that was read before stays in force. %s", why)
        self.wrong = why

    def _stamp(self) -> Stamp:
        found = [path.stat() for path in self._paths]
        return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino))

    def _settled(self, stamp: Stamp) -> bool:
        """Whether the files have been so for a second; to be called each time that they are looked at."""
        seen, since = self._seen
        if seen != stamp:
            self._seen = (stamp, self._clock())
            return False
        return self._clock() - since >= _SETTLED_SECONDS

    def _unreadable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"access.policy: cannot read {error.filename or self._policy}: {error.strerror}.")


def _covers(newer: Account | None, older: Account) -> bool:
    return newer is not None and {*older.groups} <= {*newer.groups} and older.roles <= newer.roles
