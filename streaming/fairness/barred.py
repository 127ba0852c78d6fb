"""Whom a batch takes no half messages of: fixed with the batch, and told to its tasks."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pyspark import SparkContext

from streaming.batch.batch_word import BatchWord
from streaming.batch.kept_by_batch import KeptForm
from streaming.batch.numbered_files import NumberedFiles

RETRIES = " (retries)"
"""Follows an account's name: what consumers of its groups are to get again, which has the account's limits apart."""
BARRED_WORD = BatchWord("checkback.barred")
"""As a file has it."""


class Barred(NamedTuple):
    """Reasons, by producer group and by account."""

    groups: Mapping[str, str] = {}
    accounts: Mapping[str, str] = {}

    @property
    def nobody(self) -> bool:
        """Whether all are taken in."""
        return not self.groups and not self.accounts

    def reason(self, counted_for: str, of_group: Callable[[str], Iterable[str]] | None, retry_prefix: str) -> str:
        """Why nothing is taken in that counts for this group, or topic of retries; empty: it is.

        ``of_group`` has the accounts of a group; None: there is no access policy.
        """
        if counted_for in self.groups or not self.accounts or of_group is None:
            return self.groups.get(counted_for, "")
        return barred_account(self.accounts, accounts_of(of_group, counted_for, retry_prefix))


NOBODY = Barred()


def accounts_of(of_group: Callable[[str], Iterable[str]], counted_for: str, retry_prefix: str) -> tuple[str, ...]:
    """The names of a group's accounts, or of those for its retries if ``counted_for`` is their topic."""
    group = counted_for.removeprefix(retry_prefix)
    retries = group != counted_for
    return tuple(f"{name}{RETRIES}" if retries else name for name in of_group(group))


def barred_account(accounts: Mapping[str, str], of_group: Iterable[str]) -> str:
    """Why half messages of a group that belongs to these accounts are rejected; empty: they are not."""
    return next((why for account in of_group if (why := accounts.get(account))), "")


_FORM = set(Barred._fields)


def _spelled(barred: Barred) -> bytes:
    # without accounts as it was before there were any, so that a job of then can read it
    return json.dumps(barred._asdict() if barred.accounts else barred.groups).encode()


def _parsed(content: bytes) -> Barred | None:
    """None when the file is torn."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if _reasons(found):
        return Barred(found)
    if isinstance(found, dict) and found.keys() == _FORM and all(map(_reasons, found.values())):
        return Barred(**found)
    return None


def _reasons(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values())


def _same(one: Barred, other: Barred) -> bool:
    return all(mine.keys() == others.keys() for mine, others in zip(one, other, strict=True))


BARRED: KeptForm[Barred] = KeptForm(
    NumberedFiles("checkback-barred-", ".json"),
    _spelled,
    _parsed,
    NOBODY,
    "%s in the checkpoint was torn: nobody is barred until the quotas are known again.",
    _same,
)


def tell_tasks(spark: SparkContext, barred: Barred) -> None:
    """Let the tasks of the batch that this thread is about to run know."""
    BARRED_WORD.tell(spark, _spelled(barred).decode())


def told() -> Barred:
    """In a task: what :func:`tell_tasks` said; nobody is barred where it said nothing."""
    return _barred_in(BARRED_WORD.told())


@lru_cache(2)
def _barred_in(text: str) -> Barred:
    return (_parsed(text.encode()) if text else None) or NOBODY
