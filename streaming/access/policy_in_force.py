"""Which policy a batch is evaluated under, in all its runs."""

import hashlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from pydantic import ValidationError
from pyspark.sql import SparkSession

from access.files import PolicyAndKeys, PolicyFiles
from access.marked import MarkedPolicy, OwnKey, key_of_job, lacking, with_marks
from access.policy import AccountRole
from checkback.exceptions import ConfigurationError
from checkback.wire.audit import AuditKind, AuditRecord
from conf.secrets_file import own_key, read_keys
from conf.settings import AccessSettings, Settings
from streaming.access.told import POLICY_WORD, SECRETS_WORD
from streaming.batch.kept_by_batch import KeptByBatch, KeptForm
from streaming.batch.numbered_files import NumberedFiles
from streaming.folders import Folder

_LOGGER = logging.getLogger(__name__)


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


def _parsed(content: bytes) -> str | None:
    try:
        text = content.decode()
        if text:
            MarkedPolicy.model_validate_json(text)
    except (UnicodeDecodeError, ValidationError):
        return None
    return text


POLICY: KeptForm[str] = KeptForm(
    NumberedFiles("checkback-access-", ".json"),
    str.encode,
    _parsed,
    "",
    "%s in the checkpoint was torn: the policy that access.policy names now is taken for it.",
)


def missing_secrets(checkpoint: Folder, secrets: str, batch: int) -> ConfigurationError | None:
    """Why a batch cannot be judged by the policy that it was begun with: the file ``secrets`` lacks its keys."""
    _, policy = POLICY.begun_under(checkpoint, batch)
    if not policy:
        return None
    try:
        keys = read_keys(secrets)
    except ConfigurationError:
        keys = {}
    without = lacking(MarkedPolicy.model_validate_json(policy), keys)
    if not without:
        return None
    return ConfigurationError(
        f"Batch {batch} was begun with signed messages, and access.secrets has no secret of {', '.join(without)} now, "
        "or another one: put it back until the job has run for a moment."
    )


class PolicyInForce:
    """The file's policy holds from ``first_new`` on, the first batch that was never begun, and then with its changes.

    ``told`` hears of the policy that holds at the start, and of each change: the batch that it holds from, and the
    policy as JSON, empty for none. Make it at the start, when nobody else can begin a batch any more.

    Raises:
        OSError, Py4JError: the checkpoint folder is away.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Folder,
        file: PolicyFile,
        first_new: int,
        told: Callable[[int, str], None] = lambda _batch, _policy: None,
    ) -> None:
        self._context = spark.sparkContext
        self._kept = KeptByBatch(checkpoint, POLICY)
        self._file = file
        self._others = told
        self._told: str | None = None
        self.now: MarkedPolicy | None = None
        """What holds in the batch that was begun last; None: there is no policy."""
        self._kept.begin(first_new, file.first)

    def before(self, batch: int) -> None:
        """Before the batch is evaluated, in the thread that runs it: its tasks are told what holds.

        Raises:
            OSError, Py4JError: the checkpoint folder is away.
        """
        text = self._kept.of_batch(batch, lambda _held: self._file.now())
        if self._told not in {None, text}:
            _LOGGER.warning("From batch %d on another access policy holds.", batch)
        if self._told != text:
            self.now = MarkedPolicy.model_validate_json(text) if text else None
            if text or self._told:
                self._others(batch, text)
        self._told = text
        POLICY_WORD.tell(self._context, text)
        SECRETS_WORD.tell(self._context, self._file.secrets)
