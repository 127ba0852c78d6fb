"""Reads checks and announcements, and commits which checks have been answered: all on one thread.

Checks that nobody can be asked about wait in Kafka, and are read again later: see :mod:`checkers.behind`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import (
    CommitFailedError,
    OffsetAndMetadata,
    RebalanceInProgressError,
    TopicPartition,
)
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.outages import Outage
from checkers.behind import Reading, Route
from checkers.check import Check
from checkers.rereading import CheckOrigin, Rereader, check_of, origin_of

_LOGGER = logging.getLogger(__name__)
_POLL_MS = 50
_COMMIT_SECONDS = 1.0
_NEWS_COMMIT_SECONDS = 0.2
"""After an answer: what is not committed when a service dies, or partitions are shared out, is asked again."""
_COMMIT_WAIT_MS = 2_000
_PAUSED_SECONDS = 5.0
"""After so long without a commit, where there is one a second, others may have our partitions: half a session."""
_HEAR_SECONDS = 0.2
_MOST_SORTED = 10_000  # announcements
_MOST_UNWRITTEN = 20_000  # answers: no more checks are read meanwhile
_SAID_AGAIN_SECONDS = 10.0

Announcements = list[tuple[Any, int]]
"""Records, each with a key, and for how many ms Kafka has had it."""


class Intake:
    """``ask`` takes checks and says when it has them; ``hear`` takes announcements. Kafka may go away and come back."""

    def __init__(
        self,
        checks: Any,
        registry: Any,
        ask: Callable[[list[Check]], "Future[None]"],
        hear: Callable[[Announcements], "Future[None]"],
        outage: Outage,
        rereader: Rereader,
    ) -> None:
        self._checks = checks
        self._registry = registry
        self._ask = ask
        self._hear = hear
        self._outage = outage
        self._rereader = rereader
        self._readings: dict[TopicPartition, Reading] = {}
        self._done: SimpleQueue[tuple[CheckOrigin, str | None]] = SimpleQueue()
        self._handed: Future[None] | None = None
        self._hearing: Future[None] | None = None
        """Of the last announcements; None: no more have come since."""
        self._last_commit = self._next_hearing = self._next_saying = 0.0
        self._news = False
        """Something was answered, or postponed, since the last commit."""

    @property
    def busy(self) -> bool:
        """Whether checks are being read again, or many endpoints announced, so that it does not wait for new checks."""
        return self._rereader.busy or self._hearing is not None

    def finished(self, origin: CheckOrigin) -> None:
        """A check is dealt with, or was answered and is kept; called from any thread."""
        self._done.put((origin, None))

    def postponed(self, origin: CheckOrigin, reason: str) -> None:
        """Nobody can be asked about a check now: it waits in Kafka; called from any thread."""
        self._done.put((origin, reason))

    def know_endpoints(self, stopping: threading.Event) -> None:
        """Hear all announcements that are there now, so that the first check finds its endpoint."""
        places = list(self._registry.assignment())
        self._registry.seek_to_beginning(*places)
        ends = self._registry.end_offsets(places)
        heard: Announcements = []
        while not stopping.is_set() and any(self._registry.position(place) < ends[place] for place in places):
            heard += self._announced(wait_ms=100, aged=True)
            if len(heard) >= _MOST_SORTED:
                self._hear_in_turn(heard)
        self._hear_in_turn(heard)

    def _hear_in_turn(self, heard: Announcements) -> None:
        """The oldest first, whichever partition it came from: a directory is told in the order of time."""
        self._hear(sorted(heard, key=lambda one: -one[1]))
        heard.clear()

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
        """One round.

        After a pause it commits first: a Kafka that has shared its partitions out meanwhile refuses that. Without, it
        would read on in them, and ask what others have asked, until it hears of that with a heartbeat.
        """
        now = time.monotonic()
        if now - self._last_commit >= _PAUSED_SECONDS and self.commit():
            self._last_commit = now
        if self._hearing is not None or now >= self._next_hearing:
            self._next_hearing = now + _HEAR_SECONDS
            self._listen()
        if self._may_take(unwritten):
            self._take()
            self._advance()
            self._rereader.step(self._readings)
        if now - self._last_commit >= (_NEWS_COMMIT_SECONDS if self._news else _COMMIT_SECONDS):
            self._last_commit = now
            self.commit()

    def commit(self) -> bool:
        """Commit what is answered; what is still on its way to Kafka waits for the next time.

        Returns:
            ``False``: the group shares out its partitions. Only polls end that, so a caller must not wait for it.

        Raises:
            KafkaError: Kafka did not take it. Nothing is lost: the next one commits at least as much.
        """
        self._advance()
        self._news = False
        offsets = {}
        for place, reading in self._readings.items():
            offset, note = reading.committed()
            offsets[place] = OffsetAndMetadata(offset, note, -1)
            reading.stored = min(reading.stored, offset)  # Kafka may have it, whatever it answers
        if not offsets:
            return True
        try:
            self._checks.commit(offsets, timeout_ms=_COMMIT_WAIT_MS)
        except CommitFailedError:  # the partitions went to another service meanwhile, which asks again
            self._readings.clear()
        except RebalanceInProgressError:
            return False
        else:
            for place, stored in offsets.items():
                self._readings[place].stored = stored.offset
            self._outage.answered()
        return True

    def _advance(self) -> None:
        while True:
            try:
                origin, postponed_for = self._done.get_nowait()
            except Empty:
                return
            reading = self._readings.get(origin.place)
            if reading is None:
                continue
            self._news = True
            if origin.kept:
                reading.keep(origin.route, origin.offset, origin.transaction, origin.time_ms)
            elif postponed_for is None:
                reading.finish(origin.route, origin.offset)
            elif reading.postpone(origin.route, origin.offset):
                self._say_that_wait(origin.route, postponed_for)

    def _say_that_wait(self, route: Route, reason: str) -> None:
        now = time.monotonic()
        if now >= self._next_saying:
            self._next_saying = now + _SAID_AGAIN_SECONDS
            _LOGGER.warning(
                "Checks of group %s for topic %s wait until somebody can be asked: %s", route.group, route.topic, reason
            )

    def _listen(self) -> None:
        if self._hearing is not None:
            try:
                error = self._hearing.exception(_POLL_MS / 1000)
            except TimeoutError:  # the loop has much to do
                return
            if error:
                _LOGGER.error("Announcements of endpoints could not be taken in: %r", error)
        announced = self._announced()
        self._hearing = self._hear(announced) if announced else None

    def _announced(self, wait_ms: int = 0, *, aged: bool = False) -> Announcements:
        """``aged``: what is there from before is as old as Kafka says, by this machine's clock; else it is new.

        So a clock that is off hides an endpoint until its next heartbeat at most.
        """
        now_ms = time.time_ns() // 1_000_000
        return [
            (record, max(0, now_ms - record.timestamp) if aged else 0)
            for records in poll(self._registry, wait_ms).values()
            for record in records
            if record.key is not None
        ]

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
        polled = poll(self._checks, 0 if self.busy else _POLL_MS)
        known = self._follow_assignment()
        checks = [check for place in polled.keys() & known for check in self._read(place, polled[place])]
        if polled:
            self._outage.answered()
        if checks:
            self._handed = self._ask(checks)

    def _follow_assignment(self) -> set[TopicPartition]:
        """Forget partitions that another service has now, and begin new ones where they were committed.

        Gives those that were known before: what was polled of others is read again from there.
        """
        assigned = self._checks.assignment()
        self._readings = {place: reading for place, reading in self._readings.items() if place in assigned}
        known = set(self._readings)
        for place in assigned - known:
            try:
                self._begin(place)
            except Exception as error:
                if not passes(error):
                    raise
                self._outage.failed(error)  # it is begun with the next poll
        return known

    def _begin(self, place: TopicPartition) -> None:
        committed = self._checks.committed(place, metadata=True, timeout_ms=_COMMIT_WAIT_MS)
        if committed is None or committed.offset < 0:
            self._checks.seek_to_beginning(place)
            first = self._checks.position(place, timeout_ms=_COMMIT_WAIT_MS)
            if first is not None:  # else Kafka has not answered in time
                self._readings[place] = Reading(first)
        else:
            self._checks.seek(place, committed.offset)
            self._readings[place] = Reading(committed.offset, committed.metadata)

    def _read(self, place: TopicPartition, records: Iterable[Any]) -> Iterable[Check]:
        for record in records:
            reading = self._readings[place]
            if record.offset < reading.stored:  # the topic was made again: nothing of the former one waits
                reading = self._readings[place] = Reading(record.offset)
            origin = origin_of(place, record)
            reading.came(record.timestamp)
            if reading.begin(record.offset, origin.route, origin.transaction):
                check = check_of(record, origin)
                if check is None:
                    reading.finish(origin.route, record.offset)
                else:
                    yield check
