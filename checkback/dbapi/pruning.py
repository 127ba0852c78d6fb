"""Old rows of the transaction log go by themselves, a few with each check."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from checkback.dbapi.states import refuse_no_age
from checkback.wire.checks import CheckRequest

_LOGGER = logging.getLogger(__name__)

PAGE = 1_000
"""Rows that are looked at in one database transaction."""
_STEP_SECONDS = 0.2
"""So long a check may take longer."""
_REST_SECONDS = 3_600.0
"""From the end of the table to its beginning."""

Page = Callable[[Any, datetime], Any]
"""Looks at the next rows after a key (None: from the first on), and deletes those from before then; gives the last key
of a page that was full, else None."""


class Pruning:
    """Goes through the log's table page by page, again and again, while checks come. All threads may use one.

    Nothing is deleted before a job has said for how long it may ask, nor when that is longer than ``age``: a row that a
    check could still ask for would be answered *rollback* though its transaction has committed. Earlier jobs do not say
    it.

    Args:
        age: of the rows that go; None: none go.
        clock: seconds; for tests.

    Raises:
        ConfigurationError: the age is not above zero.
    """

    def __init__(self, age: timedelta | None, clock: Callable[[], float] = monotonic) -> None:
        if age is not None:
            refuse_no_age(age, "prune_after")
        self._age = age
        self._clock = clock
        self._limit_ms = 0
        self._warned_of_ms = 0
        self._after: Any = None
        self._next = clock()
        self._working = threading.Lock()

    def after_check(self, request: CheckRequest, page: Page) -> None:
        """Take a step, if it is time for one. Never raises: the check has its answer."""
        if self._age is None or not self._allowed(request, self._age) or not self._working.acquire(blocking=False):
            return
        try:
            if self._clock() >= self._next:
                self._step(page, datetime.now(UTC) - self._age)
        except Exception as error:  # noqa: BLE001  (of whatever driver; the next step may do better)
            self._rest()
            _LOGGER.warning("Old rows of the transaction log were not pruned, next try in an hour: %s", error)
        finally:
            self._working.release()

    def _allowed(self, request: CheckRequest, age: timedelta) -> bool:
        if request.ask_limit_ms <= 0:
            return False
        self._limit_ms = max(self._limit_ms, request.ask_limit_ms)  # the longest, where several jobs ask
        limit = timedelta(milliseconds=self._limit_ms)
        if age >= limit:
            return True
        if self._warned_of_ms != self._limit_ms:
            self._warned_of_ms = self._limit_ms
            _LOGGER.warning(
                "The transaction log prunes nothing: prune_after is %s, and the job may ask about a transaction for %s "
                "(retention of the half topic, transactions.age_limit and transactions.parked_ttl). Give a prune_after "
                "that is not shorter.",
                *(age, limit),
            )
        return False

    def _step(self, page: Page, before: datetime) -> None:
        began = self._clock()
        while self._clock() - began < _STEP_SECONDS:
            self._after = page(self._after, before)
            if self._after is None:
                self._rest()
                return

    def _rest(self) -> None:
        self._after = None
        self._next = self._clock() + _REST_SECONDS
