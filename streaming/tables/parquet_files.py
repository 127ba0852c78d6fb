"""Parquet files, one folder for each batch, moved into place by one rename."""

from checkback.exceptions import ConfigurationError
from streaming.batch.batch import Batch
from streaming.batch.java_errors import could_not_take, first_line
from streaming.folders import MARK, Folder, open_folder, opening, refuse_deleted

BATCH_FOLDER = "checkback_batch"
"""A folder's name is ``checkback_batch=<query id>-<destination>-<batch>``: readers know that form, and look into it."""


class ParquetFilesDestination:
    """A folder of Parquet files.

    Exactly once: the folder's name says which batch it is, and the rename that makes it visible is atomic and never
    replaces. What is deleted or moved away afterwards is the user's affair, but for the newest batch of a query.
    """

    def __init__(self, name: str, root: Folder) -> None:
        self._name = name
        self.root = root

    def prepare(self) -> bool:
        """Make the folder.

        Raises:
            ConfigurationError: it cannot be made, or it is a Delta table.
        """
        names = open_folder(self._name, self.root)
        if "_delta_log" in names:
            raise ConfigurationError(
                f"sinks.tables.{self._name}: {self.root.uri} is a Delta table: set kind = 'delta', or name another "
                "folder."
            )
        with opening(self._name, self.root.uri):
            self.root.make(MARK)
        return any(name.startswith((MARK, BATCH_FOLDER)) for name in names)

    def publish(self, batch: Batch, folder: str, files: list[str]) -> None:
        """Move a batch into place.

        1. The reported files are gathered in a folder that no task knows: a task that was given up on may still write
           into the one it was told.
        2. That folder is renamed to the batch's name, if nothing has it yet.

        Raises:
            DestinationError: that was not possible; no file of the batch is visible.
        """
        whole = f"{folder}.whole"
        target = f"{BATCH_FOLDER}={batch.query_id}-{self._name}-{batch.number:010d}"
        unnamed = f"{BATCH_FOLDER}={batch.query_id}-{batch.number:010d}"  # as up to November 2026
        try:
            refuse_deleted(self.root)
            if self.root.exists(target) or self.root.exists(unnamed):
                return
            self.root.make(whole)
            for file in files:  # 1
                self.root.put(f"{folder}/{file}", f"{whole}/{file}")
            self.root.put(whole, target)  # 2
        except Exception as error:  # Java's exceptions come as py4j's
            raise could_not_take(self._name, batch.number, first_line(error)) from error
