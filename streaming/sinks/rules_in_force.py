"""The rules a batch was begun with, kept in the checkpoint folder.

A batch that a crash cut off is run again. Kafka then has what the rules of its first run sent there, and skips it:
under other rules a message that is now for Kafka would be written nowhere. So changed rules hold from the first batch
that has never been begun.
"""

import json

from checkback.exceptions import ConfigurationError
from streaming.sinks.folders import Folder
from streaming.sinks.routes import Routes

_PREFIX, _SUFFIX = "checkback-rules-", ".json"


class RulesInForce:
    """Rules by the batch they hold from; before the first ones, everything goes to Kafka."""

    def __init__(self, checkpoint: Folder) -> None:
        self._checkpoint = checkpoint
        self._from: dict[int, Routes] = {}

    def any(self) -> bool:
        """Whether any batch, past or to come, has rules."""
        return any(routes.rules for routes in self._from.values())

    def of_batch(self, batch: int) -> Routes:
        """The rules that this batch runs under, in all its runs."""
        starts = [start for start in self._from if start <= batch]
        return self._from[max(starts)] if starts else Routes()

    def read(self, known: set[str]) -> None:
        """Find out what has been in force until now; changes nothing.

        Raises:
            ConfigurationError: a batch has still to be finished for a destination that is not among the ``known``.
        """
        names = [name for name in self._checkpoint.children() if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
        for name in names:
            start = int(name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
            self._from[start] = Routes.of(json.loads(self._checkpoint.read(name)))
        begun = self._last("offsets")
        if begun > self._last("commits"):
            self._refuse_unknown(begun, known)

    def take(self, wanted: Routes, known: set[str]) -> None:
        """At start: let the settings' rules hold from the next new batch on.

        Raises:
            ConfigurationError: see :meth:`read`.
        """
        self.read(known)
        begun = self._last("offsets")
        if self.of_batch(begun + 1) != wanted:
            self._checkpoint.write(f"{_PREFIX}{begun + 1}{_SUFFIX}", json.dumps(wanted.rules).encode())
            self._from[begun + 1] = wanted

    def _last(self, log: str) -> int:
        return max((int(name) for name in self._checkpoint.children(log) if name.isdigit()), default=-1)

    def _refuse_unknown(self, batch: int, known: set[str]) -> None:
        gone = [name for name in self.of_batch(batch).tables() if name not in known]
        if gone:
            raise ConfigurationError(
                f"Batch {batch} was begun when messages went to {', '.join(gone)}, and must be finished there: put "
                "that back into sinks.tables until the job has run for a moment; new batches follow the new rules."
            )
