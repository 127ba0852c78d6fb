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
    """Gives the descriptor of the lock: processes that inherit it keep the folder for as long as they live.

    For ``seconds`` it is waited for: a broker that was killed has it for a moment longer.

    Raises:
        BrokerStartError: another Kafka has the folder, or it cannot be written to.
    """
    deadline = time.monotonic() + seconds
    try:
        held = os.open(folder / _NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BrokerStartError(f"{folder} cannot be Kafka's folder: {error.strerror}. Choose another.") from error
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise BrokerStartError(
                        f"Another Kafka uses {folder}: stop that one, or name another folder."
                    ) from error
                time.sleep(0.05)
        yield held
    finally:
        os.close(held)
