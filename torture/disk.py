"""A disk of the run's own for the job's machine: a file system in a file, which can lose power.

Power is cut as the tests of Linux's file systems do it: ``EXT4_IOC_SHUTDOWN`` without writing the journal. From that
moment nothing more gets to the file; what was written and not synchronised is lost, and a file that was renamed may be
empty. Unmounted and mounted again, it has its journal replayed, as after a start of the machine.
"""

import fcntl
import os
import random
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from checkback.exceptions import CheckbackError

_SHUTDOWN = 0x8004587D
_WITHOUT_JOURNAL = struct.pack("I", 2)
_BYTES = 2 << 30
"""The file has holes: it takes what is written."""
_BUSY_SECONDS = 30.0
_MOST_BETWEEN_SECONDS = 4.0
_SEED = 1


class DiskError(CheckbackError):
    """The disk cannot be had, or not be mounted."""


class Disk:
    """A file system of its own at ``folder``. It needs root and loop devices."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "disk"
        self._image = place / "disk.img"
        self._chance = random.Random(_SEED)  # noqa: S311  (dice, no secret)
        self._neighbour: threading.Thread | None = None
        self._ended = threading.Event()

    def make(self) -> None:
        """Make and mount it, and have somebody else write there, too.

        Raises:
            DiskError: this machine does not allow it.
        """
        with self._image.open("wb") as image:
            image.truncate(_BYTES)
        self.folder.mkdir()
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self.mount()
        self._neighbour = threading.Thread(target=self._synchronise, daemon=True)
        self._neighbour.start()

    def mount(self) -> None:
        """Mount it."""
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def unmount(self) -> None:
        """Unmount it, once those who used it are gone."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while os.path.ismount(self.folder):
            try:
                _run("umount", str(self.folder))
            except DiskError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        """Unmount it for good."""
        self._ended.set()
        if self._neighbour is not None:
            self._neighbour.join()
        self.unmount()

    def cut(self) -> None:
        """From now on nothing is written, and nothing that was not written is kept."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(folder)

    def _synchronise(self) -> None:
        """What others have synchronised takes the renames of everybody to the disk, and not their bytes."""
        while not self._ended.wait(self._chance.uniform(0, _MOST_BETWEEN_SECONDS)):
            with suppress(OSError), (self.folder / "of-somebody-else").open("w") as file:
                file.write("something")
                file.flush()
                os.fsync(file.fileno())


def can_be_had() -> bool:
    """Whether this machine has loop devices and ext4, and lets this user mount."""
    with tempfile.TemporaryDirectory(prefix="checkback-torture-") as place:
        disk = Disk(Path(place))
        try:
            disk.make()
            disk.close()
        except (DiskError, OSError):
            return False
    return True


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (as named in this module)
    if done.returncode:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip()}. A disk of its own needs root and loop devices.")
