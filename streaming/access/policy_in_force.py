"""Which policy a batch is evaluated under, in all its runs."""

import logging
from collections.abc import Callable

from pydantic import ValidationError
from pyspark.sql import SparkSession

from access.marked import MarkedPolicy, lacking
from checkback.exceptions import ConfigurationError
from conf.secrets_file import read_keys
from streaming.access.policy_file import PolicyFile
from streaming.access.told import POLICY_WORD, SECRETS_WORD
from streaming.batch.kept_by_batch import KeptByBatch, KeptForm
from streaming.batch.numbered_files import NumberedFiles
from streaming.folders import Folder

_LOGGER = logging.getLogger(__name__)


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
