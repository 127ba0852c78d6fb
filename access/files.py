"""The files of ``access.policy`` and ``access.secrets``, as a program that runs for long reads them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from access.policy import AccessPolicy, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey
from conf.secrets_file import UnreadableFileError, read_keys
from conf.settings import AccessSettings
from conf.settled_files import SettledFiles, Stamp


class PolicyAndKeys(NamedTuple):
    """What the files said when they were last read and could be used."""

    policy: AccessPolicy
    keys: Mapping[str, SigningKey]
    lacking: frozenset[str]
    """Keys of accounts with groups of which there is no secret here."""


class PolicyFiles:
    """Reads them again when they have changed and been left alone for a second.

    Files that cannot be used change nothing; nor does a policy without an account, or secrets that lack one that was
    there. ``say`` is told why.

    Raises:
        ConfigurationError: a file cannot be read at the start, or is not a policy.
    """

    def __init__(
        self, access: AccessSettings, say: Callable[[str], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._policy, self._secrets = access.policy, access.secrets
        self._say = say
        self._files = SettledFiles([Path(name) for name in (access.policy, access.secrets) if name], clock)
        try:
            self._judged: Stamp = self._files.stamp()
            self._in_force = self._read()
        except OSError as error:
            raise ConfigurationError(
                f"access.policy: cannot read {error.filename or access.policy}: {error.strerror}."
            ) from None
        if self._in_force.lacking:
            lacking = ", ".join(sorted(self._in_force.lacking))
            say(f"access.secrets has no secret of {lacking}: what is signed so is not believed.")

    def now(self) -> PolicyAndKeys:
        """What holds now: the same object until it changes."""
        try:
            stamp = self._files.stamp()
            if stamp == self._judged or not self._files.settled(stamp):
                return self._in_force
            found = self._read()
        except (OSError, UnreadableFileError) as error:  # it may pass without a change: it is tried again
            self._keep(error)
        except ConfigurationError as error:
            self._judged = stamp
            self._keep(error)
        else:
            self._judged = stamp
            self._change(found)
        return self._in_force

    def _change(self, found: PolicyAndKeys) -> None:
        if not found.policy.accounts:
            self._keep("It names no account any more.")
        elif found.lacking - self._in_force.lacking:
            self._keep(f"access.secrets has no secret of {', '.join(sorted(found.lacking - self._in_force.lacking))}.")
        else:
            self._in_force = found

    def _read(self) -> PolicyAndKeys:
        keys = read_keys(self._secrets)
        try:
            policy = policy_of(Path(self._policy).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ConfigurationError) as error:
            raise ConfigurationError(f"access.policy: {self._policy}: {error}") from None
        named = {key for account in policy.accounts.values() if account.groups for key in account.keys}
        return PolicyAndKeys(policy, keys, frozenset(named - keys.keys()))

    def _keep(self, why: object) -> None:
        self._say(f"The access policy that was read before stays in force. {why}")
