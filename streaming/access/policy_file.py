"""The files of ``access.policy`` and ``access.secrets``: read at the start, and again when one has changed."""

import hashlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from access.marked import MarkedPolicy, OwnKey, key_of_job, marked
from access.policy import AccountRole, doubts, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.audit import AuditKind, AuditRecord
from conf.secrets_file import UnreadableFileError, own_key, read_keys
from conf.settings import AccessSettings, Settings
from conf.settled_files import SettledFiles, Stamp

_LOGGER = logging.getLogger(__name__)


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
        self._files = SettledFiles([Path(one) for one in (name, self.secrets) if one], clock)
        try:
            self._judged: tuple[Stamp | None, str] = (self._files.stamp() if name else None, "")
            """The file that was read last, and why it was not taken."""
            self.first = self._read().model_dump_json() if name else ""
            """What holds at the start."""
            self._newest = self.first
        except OSError as error:
            raise self._unreadable(error) from None
        self.wrong = ""
        """Why the file as it is now is not in force; empty: it is."""

    def now(self, before: str) -> str:
        """What is to hold from now on, given what held. Looks at the file's date and size, and seldom into it."""
        if self._path is None:
            return ""
        try:
            stamp = self._files.stamp()
            if stamp == self._judged[0]:
                self.wrong = self._judged[1]
                return before
            return self._changed(stamp, before) if self._files.settled(stamp) else before
        except OSError as error:  # it may pass, without a change of the file
            self._refuse(str(self._unreadable(error)))
            return before

    def said_of(self, job: str, batch: int, policy: str) -> AuditRecord:
        """For those who ask who has changed it: a policy that holds from a batch on, by its fingerprint."""
        if not policy:
            return AuditRecord(AuditKind.POLICY, "", f"job {job}: no policy from batch {batch} on")
        what = f"job {job}: policy {hashlib.sha256(policy.encode()).hexdigest()[:12]} from batch {batch} on"
        if policy != self._newest:  # of a batch that an earlier start left unfinished
            return AuditRecord(AuditKind.POLICY, "", f"{what}; as an earlier start kept it in the checkpoint")
        try:
            owner = self._named.owner()
            changed = datetime.fromtimestamp(self._named.stat().st_mtime, UTC).isoformat(timespec="seconds")
        except (OSError, KeyError, NotImplementedError):  # gone, or of a user without a name
            owner = changed = "?"
        return AuditRecord(AuditKind.POLICY, f"owner of the file: {owner}", f"{what}; {self._path}, changed {changed}")

    def _changed(self, stamp: Stamp, before: str) -> str:
        try:
            holds = self._newest = self._read().model_dump_json()
            why = ""
        except UnreadableFileError as error:  # it is tried again
            self._refuse(str(error))
            return before
        except ConfigurationError as error:
            holds, why = before, str(error)
        if self._files.stamp() != stamp:
            return before
        self._judged = stamp, why
        self._refuse(why)
        return holds

    def _refuse(self, why: str) -> None:
        if why not in {"", self.wrong}:
            _LOGGER.error("The policy that was read before stays in force. %s", why)
        self.wrong = why

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
    return PolicyFile(settings.access, signs=key_of_job(settings).signs)
