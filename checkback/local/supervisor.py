"""Runs one program and ends it when whoever started us is gone.

``python supervisor.py REMOVE COMMAND...``: standard input is a pipe whose other end the starter holds; its
end of file, however the starter died, stops the program. REMOVE is a folder to delete afterwards, or empty.
Imports nothing but the standard library: it starts in milliseconds.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


def die_with_starter() -> None:
    """Called between fork and exec: on Linux the kernel then ends the program even when its starter is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()


def main(remove: str, command: list[str]) -> int:
    """Run the command until standard input ends, then end it and remove the folder; gives its exit status."""
    program = subprocess.Popen(  # noqa: S603  (the starter is our own code)
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,  # what the starter passed on, a lock of the folder, is the program's while it lives
        preexec_fn=die_with_starter,  # noqa: PLW1509  (no thread has been started yet)
    )

    def wait_for_starter() -> None:
        while os.read(0, 1):
            pass
        _stop(program)

    # in a thread of its own: the handler runs inside wait() below, whose lock it would wait for in vain
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_stop, args=(program,), daemon=True).start())
    threading.Thread(target=wait_for_starter, daemon=True).start()
    status = program.wait()
    if remove:
        shutil.rmtree(remove, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
