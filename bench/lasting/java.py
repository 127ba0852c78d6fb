"""What a Java says of itself when it is asked, as ``jcmd`` asks: HotSpot's attach protocol on Linux, without a JDK."""

import contextlib
import os
import re
import signal
import socket
import time
from pathlib import Path

from checkback.exceptions import CheckbackError

_SOCKETS = Path("/tmp")  # noqa: S108  (HotSpot's own place, whatever java.io.tmpdir says)
_OPEN_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
_COMMANDS = ("Compiler.codecache", "GC.heap_info")
_FIGURES = (
    ("code_cache_mib", _COMMANDS[0], re.compile(r"^(?:CodeHeap|CodeCache).* used=(\d+)Kb", re.MULTILINE)),
    ("metaspace_mib", _COMMANDS[1], re.compile(r"^ *Metaspace +used (\d+)K", re.MULTILINE)),
    # of the parallel collector, dead or alive: it falls when all is collected
    ("old_generation_mib", _COMMANDS[1], re.compile(r"^ *(?:ParOldGen|PSOldGen) .*used (\d+)K", re.MULTILINE)),
)
_KIB_OF_A_MIB = 1024


class AskedJava:
    """A running Java of this user."""

    def __init__(self, pid: int) -> None:
        self._socket = _SOCKETS / f".java_pid{pid}"
        if not self._socket.exists():
            self._open(pid)

    def figures(self) -> dict[str, float]:
        """What the JIT's code takes, the classes, and the old generation; without what this Java does not tell of."""
        answers = {command: self._ask(command) for command in _COMMANDS}
        found = {name: pattern.findall(answers[command]) for name, command, pattern in _FIGURES}
        return {name: round(sum(map(int, kib)) / _KIB_OF_A_MIB, 2) for name, kib in found.items() if kib}

    def _open(self, pid: int) -> None:
        """Java opens its socket when it finds such a file on SIGQUIT; without the file it would print its threads."""
        wanted = _SOCKETS / f".attach_pid{pid}"
        wanted.touch(mode=0o600)
        try:
            os.kill(pid, signal.SIGQUIT)
            until = time.monotonic() + _OPEN_SECONDS
            while not self._socket.exists():
                if time.monotonic() > until:
                    raise CheckbackError(f"The Java of process {pid} does not listen to what it is asked.")
                time.sleep(0.05)
        finally:
            with contextlib.suppress(FileNotFoundError):
                wanted.unlink()

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_ANSWER_SECONDS)
            asking.connect(str(self._socket))
            # version, kind of request, and three arguments
            asking.sendall(b"".join(part + b"\0" for part in (b"1", b"jcmd", command.encode(), b"", b"")))
            with asking.makefile(encoding="utf-8", errors="replace") as answer:
                return answer.read()
