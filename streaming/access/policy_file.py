"""The files of ``access.policy`` and ``access.secrets``: read at the start, and again when one has changed."""

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from access.marked import MarkedPolicy, OwnKey, marked
from access.policy import AccountRole, doubts, policy_of
from checkback.exceptions import ConfigurationError
from conf.secrets_file import own_key, read_keys
from conf.settings import AccessSettings, Settings

_LOGGER = logging.getLogger(__name__)
_SETTLED_SECONDS = 1.0
"""Unchanged for so long it is not being written any more: half a file may well be a policy, and another one."""
_Stamp = tuple[int, ...]


class PolicyFile:
    """What holds as text: the policy as JSON, empty for none. While the job runs, an unusable file changes nothing.

    ``signs``: what the job is to sign, by roles that its key must have.

    Raises:
        ConfigurationError: a file cannot be read, or is not a policy, or there is no secret of a key that it names.
    """

    def __init__(
        self,
        access: AccessSettings,
        clock: Callable[[], float] = monotonic,
        signs: tuple[AccountRole, ...] = (AccountRole.JOB,),
    ) -> None:
        name = access.policy
        self.secrets = str(Path(access.secrets).absolute()) if access.secrets else ""
        """Where the secrets lie: the same on each machine that runs tasks."""
        self._own_key = OwnKey(access.key, signs)
        self._path = Path(name) if name else None
        self._clock = clock
        self._seen: tuple[_Stamp | None, float] = (None, 0.0)
        try:
            self._judged: tuple[_Stamp | None, str] = (self._stamp() if name else None, "")
            """The file that was read last, and why it was not taken."""
            self.first = self._read().model_dump_json() if name else ""
            """What holds at the start."""
        except OSError as error:
            raise self._unreadable(error) from None
        self.wrong = ""
        """Why the file as it is now is not in force; empty: it is."""

    def now(self, before: str) -> str:
        """What is to hold from now on, given what held. Looks at the file's date and size, and seldom into it."""
        if self._path is None:
            return ""
        try:
            stamp = self._stamp()
            if stamp == self._judged[0]:
                self.wrong = self._judged[1]
                return before
            return self._changed(stamp, before) if self._settled(stamp) else before
        except OSError as error:  # it may pass, without a change of the file
            self._refuse(str(self._unreadable(error)))
            return before

    def _changed(self, stamp: _Stamp, before: str) -> str:
        try:
            holds, why = self._read().model_dump_json(), ""
        except ConfigurationError as error:
            holds, why = before, str(error)
        if self._stamp() != stamp:
            return before
        self._judged = stamp, why
        self._refuse(why)
        return holds

    def _settled(self, stamp: _Stamp) -> bool:
        seen, since = self._seen
        if seen != stamp:
            self._seen = (stamp, self._clock())
            return False
        return self._clock() - since >= _SETTLED_SECONDS

    def _refuse(self, why: str) -> None:
        if why not in {"", self.wrong}:
            _LOGGER.error("The policy that was read before stays in force. %s", why)
        self.wrong = why

    def _stamp(self) -> _Stamp:
        found = [self._named.stat(), *([Path(self.secrets).stat()] if self.secrets else [])]
        return tuple(number for one in found for number in (one.st_mtime_ns, one.st_size, one.st_ino))

    def _read(self) -> MarkedPolicy:
        keys = read_keys(self.secrets)
        try:
            policy = marked(policy_of(self._named.read_text(encoding="utf-8")), keys, self._own_key)
        except (UnicodeDecodeError, ConfigurationError) as error:
            raise ConfigurationError(f"access.policy: {self._path}: {error}") from None
        for doubt in doubts(policy):
            _LOGGER.warning("access.policy: %s: %s", self._path, doubt)
        return policy

    def _unreadable(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"access.policy: cannot read {error.filename or self._path}: {error.strerror}.")

    @property
    def _named(self) -> Path:
        assert self._path is not None  # noqa: S101  (asked for before)
        return self._path


def policy_file(settings: Settings) -> PolicyFile:
    """Those of a job with these settings.

    Raises:
        ConfigurationError: see :class:`PolicyFile`; or the job's own key has no secret.
    """
    own_key(settings.access)
    signs = [AccountRole.JOB]
    if settings.checks.in_job:
        signs.append(AccountRole.CHECKS)
    if settings.http.token.get_secret_value():  # people decide on its page
        signs.append(AccountRole.OPERATOR)
    return PolicyFile(settings.access, signs=tuple(signs))
