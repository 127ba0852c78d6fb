"""Reads checks and announcements, and commits which checks have been answered: all on one thread."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from kafka import TopicPartition
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata

from checkback.check_protocol import CheckRequest
from checkback.exceptions import ProtocolError
from checkers.groups import Check
from checkers.outages import Outage, passes
from checkers.reading import poll
from checkers.window import OffsetWindow

_LOGGER = logging.getLogger(__name__)
_POLL_MS = 50
_COMMIT_SECONDS = 1.0
_COMMIT_WAIT_MS = 2_000
_HEAR_SECONDS = 0.2
_MOST_UNWRITTEN = 20_000  # answers: no more checks are read meanwhile

Place = tuple[TopicPartition, int]
Announcements = list[tuple[bytes, bytes | None]]


class Intake:
    """``ask`` takes checks and says when it has them; ``hear`` takes announcements. Kafka may go away and come back."""

    def __init__(
        self,
        checks: Any,
        registry: Any,
        ask: Callable[[list[Check]], "Future[None]"],
        hear: Callable[[Announcements], None],
        outage: Outage,
    ) -> None:
        self._checks = checks
        self._registry = registry
        self._ask = ask
        self._hear = hear
        self._outage = outage
        self._windows: dict[TopicPartition, OffsetWindow] = {}
        self._done: SimpleQueue[Place] = SimpleQueue()
        self._handed: Future[None] | None = None
        self._next_commit = self._next_hearing = 0.0

    def finished(self, origin: Place) -> None:
        """A check is dealt with; called from any thread."""
        self._done.put(origin)

    def know_endpoints(self, stopping: threading.Event) -> None:
        """Hear all announcements that are there now, so that the first check finds its endpoint."""
        places = list(self._registry.assignment())
        self._registry.seek_to_beginning(*places)
        ends = self._registry.end_offsets(places)
        while not stopping.is_set() and any(self._registry.position(place) < ends[place] for place in places):
            self._listen(wait_ms=100)

    def run(self, stopping: threading.Event, unwritten: Callable[[], int] = lambda: 0) -> None:
        """Read and commit until stopped; ``unwritten`` is how many answers still wait for Kafka.

        Raises:
            Exception: something that will not pass by itself.
        """
        while not stopping.is_set():
            try:
                self.step(unwritten())
            except Exception as error:
                if not passes(error):
                    raise
                stopping.wait(self._outage.failed(error))

    def step(self, unwritten: int = 0) -> None:
        """One round."""
        now = time.monotonic()
        if now >= self._next_hearing:
            self._next_hearing = now + _HEAR_SECONDS
            self._listen()
        if self._may_take(unwritten):
            self._take()
        if now >= self._next_commit:
            self._next_commit = now + _COMMIT_SECONDS
            self.commit()

    def commit(self) -> None:
        """Commit what is answered; what is still on its way to Kafka waits for the next time.

        Raises:
            KafkaError: Kafka did not take it. Nothing is lost: the next one commits at least as much.
        """
        self._advance()
        offsets = {place: OffsetAndMetadata(window.committable, "", -1) for place, window in self._windows.items()}
        if not offsets:
            return
        try:
            self._checks.commit(offsets, timeout_ms=_COMMIT_WAIT_MS)
        except CommitFailedError:  # the partitions went to another service meanwhile, which asks once more
            self._windows.clear()
        else:
            self._outage.answered()

    def _advance(self) -> None:
        while True:
            try:
                place, offset = self._done.get_nowait()
            except Empty:
                return
            if place in self._windows:
                self._windows[place].finish(offset)

    def _listen(self, wait_ms: int = 0) -> None:
        heard = [
            (record.key, record.value)
            for records in poll(self._registry, wait_ms).values()
            for record in records
            if record.key is not None
        ]
        if heard:
            self._hear(heard)

    def _may_take(self, unwritten: int) -> bool:
        """Nothing is read while what was read has no place to go to."""
        if unwritten >= _MOST_UNWRITTEN:
            time.sleep(_POLL_MS / 1000)
            return False
        if self._handed is None:
            return True
        try:
            self._handed.result(_POLL_MS / 1000)  # raises what was wrong with it
        except TimeoutError:
            return False
        self._handed = None
        return True

    def _take(self) -> None:
        polled = poll(self._checks, _POLL_MS)
        assigned = self._checks.assignment()
        self._windows = {place: window for place, window in self._windows.items() if place in assigned}
        checks = [check for place, records in polled.items() for check in self._read(place, records)]
        if polled:
            self._outage.answered()
        if checks:
            self._handed = self._ask(checks)

    def _read(self, place: TopicPartition, records: Iterable[Any]) -> Iterable[Check]:
        for record in records:
            window = self._windows.setdefault(place, OffsetWindow(record.offset))
            window.begin(record.offset)
            try:
                request = CheckRequest.from_record(record.value, record.headers)
            except ProtocolError as error:
                _LOGGER.warning("Skipped a record of %s: %s", place.topic, error)
                window.finish(record.offset)
            else:
                yield Check(request, (place, record.offset))
