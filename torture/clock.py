"""A clock for the job that can be set while it runs: a small library that its processes preload."""

import shutil
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).parent / "clock.c"
_BYTES = 8


def can_be_set() -> bool:
    """Whether this machine can make the library: Linux with a C compiler."""
    return sys.platform == "linux" and shutil.which("cc") is not None


class SettableClock:
    """The clock of all processes that are started with :meth:`environment`; it begins at the real time."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "clock.so"
        self._offset = folder / "clock"
        self.set(0)
        if can_be_set():
            command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE), "-ldl"]
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603  (our own source)

    def environment(self) -> dict[str, str]:
        """What a process needs to go by this clock; nothing where it cannot be had."""
        if not self._library.exists():
            return {}
        return {"LD_PRELOAD": str(self._library), "TORTURE_CLOCK": str(self._offset)}

    def set(self, seconds: int) -> None:
        """Set it to that many seconds from the real one, at once and for all."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            # in place, in one write: processes have mapped it
            file.write(seconds.to_bytes(_BYTES, sys.byteorder, signed=True))
