"""Which groups a batch takes no half messages of: fixed with the batch, and told to its tasks."""

import json

from pyspark import SparkContext

from streaming.batch.batch_word import BatchWord
from streaming.batch.kept_by_batch import KeptForm
from streaming.batch.numbered_files import NumberedFiles
from streaming.fairness.quotas import Barred

BARRED_WORD = BatchWord("checkback.barred")
"""Reasons by group, as JSON."""


def _spelled(barred: Barred) -> bytes:
    return json.dumps(barred).encode()


def _parsed(content: bytes) -> Barred | None:
    """Reasons by group; None when the file is torn."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    known = isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values())
    return found if known else None


def _same(one: Barred, other: Barred) -> bool:
    return one.keys() == other.keys()


BARRED: KeptForm[Barred] = KeptForm(
    NumberedFiles("checkback-barred-", ".json"),
    _spelled,
    _parsed,
    {},
    "%s in the checkpoint was torn: no group is barred until the quotas are known again.",
    _same,
)


def tell_tasks(spark: SparkContext, barred: Barred) -> None:
    """Let the tasks of the batch that this thread is about to run know."""
    BARRED_WORD.tell(spark, json.dumps(barred))


def told() -> Barred:
    """In a task: what :func:`tell_tasks` said; nobody is barred where it said nothing."""
    found = BARRED_WORD.told()
    return dict(json.loads(found)) if found else {}
