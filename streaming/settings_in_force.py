"""What a batch is evaluated under, kept in the checkpoint folder with the batch it holds from.

Spark runs a batch again that a crash cut off. What Kafka has of it is then skipped, and the state that the new run
comes to is kept: under other rules a message would be lost or delivered twice. So changed settings hold from the first
batch that was never begun, and an unfinished one is finished under those it was begun with.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from checkback.exceptions import CheckbackError, CheckpointMismatchError, ConfigurationError
from conf import Settings, TransactionSettings
from state import RULES_VERSION, Policies
from streaming.access.policy_in_force import POLICY, missing_secrets
from streaming.batch.kept_by_batch import KeptForm, refuse_torn
from streaming.batch.numbered_files import BATCHES, NumberedFiles
from streaming.fairness.barred import BARRED
from streaming.folders import Folder
from streaming.stateful.policies import fingerprint, policy_of
from streaming.tables.routes import Routes

_FILES = NumberedFiles("checkback-rules-", ".json")
_FIRST_VERSION = 1
"""Of a batch begun before versions were kept: its file has the rules of ``[sinks]`` alone, or there is none."""
_UNREADABLE = 0
_RENAMED = {"after_check_max": "on_exhausted"}
"""Settings that batches were begun under when they had other names."""


@dataclass(frozen=True)
class BatchSettings:
    """All that the evaluation of a batch depends on, beside its records, its time and the state.

    Not ``job.clock_tolerance``: it moves timers, and what they find due goes by the batch's own time. Nor how records
    are made of outcomes: Kafka skips a state partition's records as a whole.
    """

    transactions: TransactionSettings | None = None
    """None where ``version`` is not this program's."""
    listener: str = ""
    """See :func:`streaming.stateful.policies.fingerprint`."""
    routes: Routes = field(default_factory=Routes)
    version: int = _FIRST_VERSION
    """``state.RULES_VERSION`` of the program that began the batch."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Of the tables in ``routes``; none in files of earlier versions."""

    @classmethod
    def of(cls, settings: Settings) -> "BatchSettings":
        """Those of the settings.

        Raises:
            ConfigurationError: the class that ``on_exhausted`` names cannot be used.
        """
        routes = Routes.of([(rule.topic, rule.to) for rule in settings.sinks.rules])
        choice = settings.transactions.on_exhausted
        places = {name: settings.sinks.places[name] for name in routes.tables()}
        return cls(settings.transactions, fingerprint(choice), routes, RULES_VERSION, places)

    @classmethod
    def read(cls, content: bytes) -> "BatchSettings":
        """From a file's content; torn, or of a form that is not known, they are those of no version."""
        try:
            found = json.loads(content)
            if isinstance(found, list):  # as they were kept before there were versions
                return cls(routes=Routes.of(found))
            version, routes = int(found["version"]), Routes.of(found["sinks"])
            if version != RULES_VERSION:
                return cls(routes=routes, version=version)
            places = dict(found.get("places", {}))
            return cls(_transactions(found["transactions"]), found["listener"], routes, version, places)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(version=_UNREADABLE)

    def written(self) -> bytes:
        """What :meth:`read` makes the same rules of."""
        found = {
            "version": self.version,
            "transactions": self.transactions and self.transactions.model_dump(),
            "listener": self.listener,
            "sinks": self.routes.rules,
            "places": self.places,
        }
        return json.dumps(found, indent=1).encode()


class SettingsInForce:
    """BatchSettings by the batch they hold from.

    ``hindrance``: why a batch lacks something else that it was begun with.
    """

    def __init__(
        self, checkpoint: Folder, hindrance: Callable[[int], CheckbackError | None] = lambda _batch: None
    ) -> None:
        self._checkpoint = checkpoint
        self._other_hindrance = hindrance
        self._from: dict[int, BatchSettings] = {}
        self._next = 0
        self.first_new = 0
        """The first batch that was never begun; known after :meth:`take`."""

    def of_batch(self, batch: int) -> BatchSettings:
        """The rules that this batch runs under, in all its runs."""
        starts = [start for start in self._from if start <= batch]
        return self._from[max(starts)] if starts else BatchSettings()

    def routes_of(self, batch: int) -> Routes:
        """Where the batch's messages go, in all its runs."""
        return self.of_batch(batch).routes

    def any_routes(self) -> bool:
        """Whether any batch, past or to come, may have messages for tables."""
        return any(rules.routes.rules for rules in self._from.values())

    def finished_tables(self) -> set[str]:
        """Names of the tables that rules of finished batches sent messages to."""
        return set().union(*(self.of_batch(n).routes.tables() for n in self._from if n <= self._last("commits")))

    def policies(self, retry_prefix: str = "") -> Policies:
        """The policies of all batches that may still be run; ``retry_prefix`` is that of the topics of retries."""
        starts = [self._next, *sorted(start for start in self._from if start > self._next)]
        given = [(start, self.of_batch(start)) for start in starts]
        return Policies(
            tuple(
                (start, policy_of(found.transactions, tables=bool(found.routes.tables()), retry_prefix=retry_prefix))
                for start, found in given
                if found.transactions
            )
        )

    def judge(self, tables: Mapping[str, str], in_kafka: Callable[[int], bool]) -> None:
        """Whether :meth:`take` will do, before a job that still runs is taken over; changes nothing.

        Raises:
            ConfigurationError, CheckpointMismatchError: see :meth:`take`.
        """
        begun = self._read()
        hindrance = self._hindrance(begun, tables) if begun > self._last("commits") else None
        if hindrance is not None and in_kafka(begun):
            raise hindrance

    def take(self, wanted: BatchSettings, tables: Mapping[str, str], in_kafka: Callable[[int], bool]) -> None:
        """At start, when nobody else can begin a batch any more: let ``wanted`` hold from the next batch on.

        1. A batch that is unfinished is run next, under the rules it was begun with.
        2. If this program cannot do that, and nothing of the batch is ``in_kafka``, it is as good as never begun:
           a job that was told to stop leaves one behind. What a table has of a batch, Kafka has the progress of.
        3. The wanted rules are written down. Those that an earlier start wrote down for a later batch are void.
        4. BatchSettings that only batches had which Spark has forgotten are removed.

        Args:
            wanted: those of the settings.
            tables: names of the destinations that there are, each with its place.
            in_kafka: whether Kafka has this batch of any state partition.

        Raises:
            ConfigurationError, CheckpointMismatchError: a batch that is in Kafka cannot be finished as it was begun.
        """
        begun = self._read()
        self._next = first = begun + 1
        if begun > self._last("commits"):
            self._next = begun  # 1
            hindrance = self._hindrance(begun, tables)
            if hindrance is not None:
                if in_kafka(begun):
                    raise hindrance
                first = begun  # 2
        self.first_new = first
        if self.of_batch(first) != wanted:  # 3
            self._checkpoint.write(_FILES.name(first), wanted.written())
            self._from[first] = wanted
        for start in [start for start in self._from if start > first]:
            self._checkpoint.remove(_FILES.name(start))
            del self._from[start]
        self._forget()  # 4

    def _read(self) -> int:
        """Read the rules; gives the newest batch that was begun, -1 when none was."""
        self._from = {start: BatchSettings.read(self._checkpoint.read(_FILES.name(start))) for start in self._starts()}
        return self._last("offsets")

    def _starts(self) -> list[int]:
        return _FILES.numbers(self._checkpoint.children())

    def _batches(self, log: str) -> list[int]:
        return BATCHES.numbers(self._checkpoint.children(log))

    def _last(self, log: str) -> int:
        return max(self._batches(log), default=-1)

    def _forget(self) -> None:
        oldest = min(self._batches("offsets"), default=0)
        needed = max((start for start in self._from if start <= oldest), default=0)
        for start in [start for start in self._starts() if start < needed]:
            self._checkpoint.remove(_FILES.name(start))

    def _hindrance(self, batch: int, tables: Mapping[str, str]) -> CheckbackError | None:
        """Why this program, with these settings, cannot run the batch as it was begun."""
        rules = self.of_batch(batch)
        if rules.transactions is None:
            known = "rules that cannot be read" if rules.version == _UNREADABLE else f"rules {rules.version}"
            return CheckpointMismatchError(
                f"Batch {batch} was begun by another version of Checkback ({known}, this one has {RULES_VERSION}), and "
                "a part of it is in Kafka: start that version again, stop it when it has run for a moment, then start "
                "this one."
            )
        names = rules.routes.tables()
        gone = [name for name in names if name not in tables or tables[name] != rules.places.get(name, tables[name])]
        if gone:
            places = ", ".join(f"{name} ({rules.places[name]})" if name in rules.places else name for name in gone)
            return ConfigurationError(
                f"Batch {batch} was begun when messages went to {places}, and must be finished there: put that back "
                "into sinks.tables until the job has run for a moment; new batches follow the new rules."
            )
        choice = rules.transactions.on_exhausted
        try:
            changed = fingerprint(choice) != rules.listener
        except ConfigurationError:
            changed = True
        return _another_class(batch, choice) if changed else self._other_hindrance(batch)


def judged_rules(
    settings: Settings, folder: Folder, in_kafka: Callable[[int], bool], torn: Callable[[str], CheckpointMismatchError]
) -> SettingsInForce:
    """The rules kept in a checkpoint folder, once an unfinished batch can be run with all that it was begun with.

    ``torn``: the error for a file that is torn.

    Raises:
        ConfigurationError, CheckpointMismatchError: it cannot.
    """
    rules = SettingsInForce(folder, partial(missing_secrets, folder, settings.access.secrets))
    rules.judge(settings.sinks.places, in_kafka)
    forms: tuple[KeptForm[Any], ...] = (BARRED, POLICY)
    for form in forms:
        refuse_torn(folder, form, in_kafka, torn)
    return rules


def _transactions(kept: dict[str, Any]) -> TransactionSettings:
    renamed = {_RENAMED.get(name, name): value for name, value in kept.items()}
    return TransactionSettings.model_validate(renamed)


def _another_class(batch: int, choice: str) -> ConfigurationError:
    return ConfigurationError(
        f"transactions.on_exhausted: batch {batch} was begun with another {choice} than there is now, and a part of "
        "it is in Kafka: put the old class back, stop the job when it has run for a moment, then change the class."
    )
