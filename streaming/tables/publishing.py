"""The driver's half of tables: what the tasks have staged is published, destination by destination."""

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from checkback.exceptions import ConfigurationError
from streaming.batch.batch import Batch
from streaming.batch.failpoints import Failpoint, FailpointHook
from streaming.batch.java_errors import could_not_take
from streaming.folders import Folder
from streaming.tables.routes import Routes
from streaming.tables.staging import StagedFile, StagingPlan, file_system_of, staged_trial

_STAGING = "_checkback_staging"  # readers of tables pass over names that begin so
_LOGGER = logging.getLogger(__name__)


class Destination(Protocol):
    """A table that remembers which batches of which query it has."""

    root: Folder
    """Where its rows are staged."""

    def prepare(self) -> bool:
        """Make what is missing, and find out whether it can be written to; gives whether the table was there.

        Raises:
            ConfigurationError: it cannot, and will not until somebody changes something.
            DestinationError: it cannot be reached now.
        """

    def publish(self, batch: Batch, folder: str, files: list[str]) -> None:
        """Make the rows of a batch visible, all at once; nothing when the batch, or a later one, is in already.

        ``files`` lie in ``folder`` of :attr:`root`; the folder is the batch's alone.

        Raises:
            DestinationError: that was not possible. Nothing, or everything, is visible.
        """


class RoutingInForce(Protocol):
    """Which rules a batch runs under: see :mod:`streaming.settings_in_force`."""

    def any_routes(self) -> bool:
        """Whether any batch, past or to come, may have messages for tables."""

    def finished_tables(self) -> set[str]:
        """Names of the tables that finished batches may have rows in."""

    def routes_of(self, batch: int) -> Routes:
        """Where the batch's messages go, in all its runs."""


class Publisher:
    """All destinations of a job."""

    def __init__(self, destinations: dict[str, Destination], rules: RoutingInForce, failpoint: FailpointHook) -> None:
        self._destinations = destinations
        self._rules = rules
        self._failpoint = failpoint
        self._cleaned = False

    def plan(self, batch: Batch) -> StagingPlan | None:
        """Where the tasks of one more attempt at a batch stage their rows; None when its rules name Kafka only."""
        routes = self._rules.routes_of(batch.number)
        if not self._cleaned:
            self._remove_leftovers(batch.query_id)
        if not routes.tables():
            return None
        folder = f"{_STAGING}/{batch.query_id}/{uuid.uuid4().hex}"
        roots = {name: self._destinations[name].root for name in routes.tables()}
        # one root may serve several destinations
        folders = {name: f"{root.uri}/{folder}/{name}" for name, root in roots.items()}
        return StagingPlan(batch.number, routes, folders, {name: root.store for name, root in roots.items()})

    def publish(self, batch: Batch, plan: StagingPlan, staged: Iterable[StagedFile]) -> Counter[str]:
        """Publish a batch that every task has reported, in the order in which the rules name the destinations.

        1. Every staged file is whole: it has the rows that its task reported.
        2. Each destination that gets rows takes them; one that has the batch already changes nothing.
        3. Only then are the staged files removed.

        Returns:
            Rows by destination, also of those that had them already.

        Raises:
            DestinationError: one could not; those before it have the batch.
        """
        files = list(staged)
        rows: Counter[str] = Counter()
        self._failpoint(Failpoint.BEFORE_PUBLISH, batch.number)
        for file in files:  # 1
            _refuse_incomplete(file, batch.number, plan.stores[file.destination])
        for number, (name, folder) in enumerate(plan.folders.items()):  # 2
            mine = [file for file in files if file.destination == name]
            if number:
                self._failpoint(Failpoint.BETWEEN_DESTINATIONS, batch.number)
            if mine:
                names = [file.file.rpartition("/")[2] for file in mine]
                destination = self._destinations[name]
                destination.publish(batch, folder.removeprefix(f"{destination.root.uri}/"), names)
                rows[name] = sum(file.rows for file in mine)
        self._failpoint(Failpoint.AFTER_PUBLISH, batch.number)
        if files:
            self._remove_staged(plan)  # 3
        return rows

    def _remove_staged(self, plan: StagingPlan) -> None:
        for name, folder in plan.folders.items():
            root = self._destinations[name].root
            attempt = folder.removeprefix(f"{root.uri}/").rpartition("/")[0]
            self._remove(root, attempt)

    def _remove_leftovers(self, query_id: str) -> None:
        """Of earlier runs of this query; a driver that still publishes one of them fails, and changes nothing."""
        for destination in self._destinations.values():
            for attempt in destination.root.children(f"{_STAGING}/{query_id}"):
                self._remove(destination.root, f"{_STAGING}/{query_id}/{attempt}")
        self._cleaned = True

    def _remove(self, root: Folder, name: str) -> None:
        try:
            root.remove(name)
        except Exception as error:  # noqa: BLE001  (Java's come as py4j's; the batch is in, and the next start tries again)
            _LOGGER.warning("Staged files in %s/%s could not be removed: %s", root.uri, name, error)


def try_staging(name: str, root: Folder, others: Mapping[str, Folder]) -> None:
    """Stage rows as a task does, read them back as the driver does, and remove them.

    Raises:
        ConfigurationError: the folder is also that of one of the ``others``, under another name.
        DestinationError: one of the two does not reach the folder.
    """
    folder = f"{_STAGING}/trial-{uuid.uuid4().hex}"
    trial = staged_trial(name, f"{root.uri}/{folder}/rows.parquet", root.store)
    _refuse_incomplete(trial, 0, root.store)
    same = [other for other, its in others.items() if its.exists(folder)]
    root.remove(folder)
    if same:
        raise ConfigurationError(
            f"sinks.tables: {name} and {same[0]} are the same folder, {root.uri}: name another one."
        )


def _refuse_incomplete(staged: StagedFile, batch: int, store: str) -> None:
    """A Parquet file ends with what it holds, so one that was cut short cannot be opened.

    Raises:
        DestinationError: the file is not what its task has written.
    """
    files, path = file_system_of(staged.file, store)
    try:
        with files.open_input_file(path) as source:
            rows = pq.ParquetFile(source).metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise could_not_take(
            staged.destination, batch, f"the staged file {staged.file} is not whole: {error}"
        ) from error
    if rows != staged.rows:
        problem = f"the staged file {staged.file} has {rows} rows instead of {staged.rows}"
        raise could_not_take(staged.destination, batch, problem)
