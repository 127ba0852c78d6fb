"""A disk of the run's own for a machine: a file system in a file, which can lose power, be full, and fail.

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
from collections.abc import Collection
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
_FILLER = "of-somebody-who-fills-it"
_MENDED = 1
"""What e2fsck ends with when it has mended something."""


class DiskError(CheckbackError):
    """The disk cannot be had, or not be mounted."""


class Disk:
    """A file system of its own at ``folder``, which is ``name`` in a place. It needs root and loop devices."""

    def __init__(self, place: Path, name: str = "disk", size: int = _BYTES) -> None:
        self.folder = place / name
        self._size = size
        self._image = place / f"{name}.img"
        self._chance = random.Random(_SEED)  # noqa: S311  (dice, no secret)
        self._neighbour: threading.Thread | None = None
        self._ended = threading.Event()

    def make(self) -> None:
        """Make and mount it, and have somebody else write there, too.

        Raises:
            DiskError: this machine does not allow it.
        """
        with self._image.open("wb") as image:
            image.truncate(self._size)
        self.folder.mkdir()
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self.mount()
        self._neighbour = threading.Thread(target=self._synchronise, daemon=True)
        self._neighbour.start()

    def mount(self) -> None:
        """Mount it."""
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.folder))

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

    def settle(self) -> None:
        """All that has been written is on it now, as after half a minute."""
        _run("sync", "-f", str(self.folder))

    def fill(self) -> None:
        """Leave no byte to anybody."""
        with (self.folder / _FILLER).open("ab", buffering=0) as filler:
            size, end = _BYTES, 0
            while size:
                try:
                    os.posix_fallocate(filler.fileno(), end, size)
                    end += size
                except OSError:  # there is no room for so many
                    size //= 2

    def make_room(self) -> None:
        """Take back what :meth:`fill` has written."""
        (self.folder / _FILLER).unlink()

    def fail(self) -> None:
        """From now on it is read-only, as ext4 makes a disk on which it has found an error."""
        mounted = (line.split()[:2] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
        device = Path(next(device for device, folder in mounted if folder == str(self.folder))).name
        if not device.startswith("loop"):  # another disk's would be read-only
            raise DiskError(f"{self.folder} is on {device}, which is not a loop device.")
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1", encoding="ascii")

    def mend(self) -> None:
        """Look through it and mount it again, once those who used it are gone."""
        self.unmount()
        _run("e2fsck", "-f", "-p", str(self._image), well={0, _MENDED})
        self.mount()

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


def _run(*command: str, well: Collection[int] = (0,)) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (as named in this module)
    if done.returncode not in well:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip()}. A disk of its own needs root and loop devices.")
