"""The access policy as text, as the job fixes it with its batches and keeps it in its checkpoint."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from access.files import PolicyAndKeys, PolicyFiles
from access.marked import OwnKey, key_of_job, with_marks
from access.policy import AccountRole
from checkback.wire.audit import AuditKind, AuditRecord
from conf.secrets_file import own_key
from conf.settings import AccessSettings, Settings


class PolicyFile:
    """The policy in force as JSON, empty for none.

    ``signs``: the roles that the job's key needs.

    Raises:
        ConfigurationError: see :class:`~access.files.PolicyFiles`; or a key that the policy names has no secret.
    """

    def __init__(
        self,
        access: AccessSettings,
        clock: Callable[[], float] = monotonic,
        signs: tuple[AccountRole, ...] = (AccountRole.JOB,),
    ) -> None:
        self.secrets = str(Path(access.secrets).absolute()) if access.secrets else ""
        """Where the secrets lie: the same on each machine that runs tasks."""
        self._path = Path(access.policy)
        self._files = PolicyFiles(access, clock, OwnKey(access.key, signs)) if access.policy else None
        self._newest: tuple[PolicyAndKeys | None, str] = None, ""
        self.first = self.now()
        """What holds at the start."""

    @property
    def wrong(self) -> str:
        """Why the file as it is now is not in force; empty: it is."""
        return self._files.wrong if self._files is not None else ""

    def now(self) -> str:
        """What holds from now on."""
        in_force = self._files.now() if self._files is not None else None
        if in_force is not None and in_force is not self._newest[0]:
            self._newest = in_force, with_marks(*in_force).model_dump_json()
        return self._newest[1]

    def said_of(self, job: str, batch: int, policy: str) -> AuditRecord:
        """For those who ask who has changed it: a policy that holds from a batch on, by its fingerprint."""
        if not policy:
            return AuditRecord(AuditKind.POLICY, "", f"job {job}: no policy from batch {batch} on")
        what = f"job {job}: policy {hashlib.sha256(policy.encode()).hexdigest()[:12]} from batch {batch} on"
        if policy != self._newest[1]:  # of a batch that an earlier start left unfinished
            return AuditRecord(AuditKind.POLICY, "", f"{what}; as an earlier start kept it in the checkpoint")
        try:
            owner = self._path.owner()
            changed = datetime.fromtimestamp(self._path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        except (OSError, KeyError, NotImplementedError):  # gone, or of a user without a name
            owner = changed = "?"
        return AuditRecord(AuditKind.POLICY, f"owner of the file: {owner}", f"{what}; {self._path}, changed {changed}")


def policy_file(settings: Settings) -> PolicyFile:
    """Those of a job with these settings.

    Raises:
        ConfigurationError: see :class:`PolicyFile`; or the job's own key has no secret.
    """
    own_key(settings.access)
    return PolicyFile(settings.access, signs=key_of_job(settings).signs)
