"""One Kafka to a folder. Kafka's own lock comes too late: with a controller in the same process, a second Kafka has by
then written to the first one's metadata log, and both end.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkback.exceptions import BrokerStartError

_NAME = "checkback.lock"


@contextmanager
def locked(folder: Path, seconds: float) -> Iterator[int]:
    """Make the folder, and give its lock's descriptor: processes that inherit it keep the lock while they live.

    For ``seconds`` it is waited for: of a broker that was killed the last thread may end after the process is gone.

    Raises:
        BrokerStartError: another Kafka has the folder, or it cannot be written to, or has no locks.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / _NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _lock(held, time.monotonic() + seconds)
        except OSError:
            os.close(held)
            raise
    except BlockingIOError as error:
        raise BrokerStartError(f"Another Kafka uses {folder}: stop that one, or name another folder.") from error
    except OSError as error:
        raise BrokerStartError(f"{folder} cannot be Kafka's folder: {error.strerror}. Choose another.") from error
    try:
        yield held
    finally:
        os.close(held)


def _lock(held: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.05)
