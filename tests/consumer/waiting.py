"""Listeners of tests, and waiting for them."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from checkback.consumer import ConsumeResult, ReceivedMessage
from tests.place import FAR_SECONDS


class Recording:
    """A listener that remembers; ``says`` decides, with how often it has seen the message before."""

    def __init__(self, says: Callable[[ReceivedMessage, int], ConsumeResult] | None = None) -> None:
        self._says = says or (lambda *_: ConsumeResult.SUCCESS)
        self._lock = threading.Lock()
        self.messages: list[ReceivedMessage] = []
        self.counts: Counter[bytes | None] = Counter()

    def __call__(self, message: ReceivedMessage) -> ConsumeResult:
        with self._lock:
            before = self.counts[message.value]
            self.counts[message.value] += 1
            self.messages.append(message)
        return self._says(message, before)

    @property
    def values(self) -> list[bytes]:
        """In the order in which they came."""
        return [message.value or b"" for message in list(self.messages)]


def soon(holds: Callable[[], object], seconds: float = FAR_SECONDS, what: str = "it") -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not hold within {seconds} s"
        time.sleep(0.05)
