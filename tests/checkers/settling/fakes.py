"""A settler that knows what tests tell it; ``test_settlers.py`` holds it against the real ones."""

import threading

from checkback.exceptions import CheckbackError
from checkback.wire.lanes import transactional_id
from checkback.wire.ledger import Ledger


class FakeSettler:
    """Of lanes that are not named in ``ledgers`` there is none. ``fails`` are raised by the next calls, one each.

    It lacks Kafka: nothing is fenced, and no transaction has to end.
    """

    def __init__(self, ledgers: dict[str, Ledger] | None = None) -> None:
        self.ledgers = ledgers or {}
        self.fails: list[CheckbackError] = []
        self.settled: list[tuple[str, str]] = []
        self.going = threading.Event()
        """Clear it, and calls wait until it is set."""
        self.going.set()
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()

    def settle(self, group: str, lane: str) -> Ledger | None:
        transactional_id(group, lane)  # raises of what is no lane
        with self._lock:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.settled.append((group, lane))
            failure = self.fails.pop(0) if self.fails else None
        assert self.going.wait(20)
        with self._lock:
            self.under_way -= 1
        if failure is not None:
            raise failure
        return self.ledgers.get(lane)
