"""The offsets of a broadcasting consumer, in a file of its own."""

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.exceptions import ConfigurationError, ConsumerError

_LOGGER = logging.getLogger(__name__)
_VERSION = 1


def default_file(group: str) -> Path:
    """Where a group's offsets lie unless the settings say otherwise: one consumer of a group for each home folder.

    Raises:
        ConfigurationError: this user has no home folder.
    """
    safe = "".join(letter if letter.isalnum() or letter in "._-" else f"%{ord(letter):x}" for letter in group)
    try:
        return Path.home() / ".checkback" / "offsets" / f"{safe}.json"
    except RuntimeError:
        raise ConfigurationError(
            f"A broadcasting consumer of group {group} keeps its offsets in the home folder, and user {os.getuid()} "
            "has none: name an offset_file on a disk that outlives the process, or set HOME."
        ) from None


class OffsetFile:
    """Offsets by partition; an :class:`~checkback.consumer.offsets.storing.OffsetStore`.

    Written to a new file first, which takes the old one's place only when it is on the disk; the old one is kept beside
    it, as ``.bak``. So at any moment one of the two is whole, and reading takes the one that is.

    Raises:
        ConfigurationError: another process has the file, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = path.with_name(f"{path.name}.lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise ConfigurationError(
                f"Another broadcasting consumer keeps its offsets in {path}: give each its own offset_file."
            ) from error
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be the offset_file: {error.strerror}.") from error
        self._offsets = self._read()

    @property
    def backup(self) -> Path:
        """The file before."""
        return self.path.with_name(f"{self.path.name}.bak")

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What is stored, of those partitions for which something is."""
        return {one: self._offsets[one] for one in partitions if one in self._offsets}

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Store, and wait until the disk has it.

        Raises:
            ConsumerError: it cannot be written.
        """
        self._offsets |= offsets
        said = [[*one, *stored] for one, stored in sorted(self._offsets.items())]
        text = json.dumps({"version": _VERSION, "offsets": said}, indent=1)
        new = self.path.with_name(f"{self.path.name}.new")
        try:
            with new.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                self.path.replace(self.backup)
            new.replace(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise ConsumerError(f"The offsets cannot be written to {self.path}: {error.strerror}.") from error

    def close(self) -> None:
        """Let another process have the file."""
        self._lock.close()

    def _read(self) -> dict[TopicPartition, Stored]:
        torn = False
        for path in (self.path, self.backup):
            try:
                found = _parsed(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, OSError) as error:
                torn = True
                _LOGGER.warning("%s cannot be read (%s)", path, error)
            else:
                if torn:
                    _LOGGER.warning("The offsets are those of %s: messages since are given again", path)
                return found
        if torn:
            _LOGGER.error("No stored offsets can be read from %s: the consumer begins as one that has none", self.path)
        return {}


def _parsed(text: str) -> dict[TopicPartition, Stored]:
    said: Any = json.loads(text)
    if not isinstance(said, dict) or said.get("version") != _VERSION:
        raise ValueError("it is not a file of offsets, or of a later version")
    return {
        TopicPartition(str(topic), int(one)): Stored(int(offset), str(metadata))
        for topic, one, offset, metadata in said["offsets"]
    }


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
