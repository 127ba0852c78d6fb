"""Which endpoints producer groups have announced, for people: where checks are answered by services elsewhere."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.outages import Outage
from checkers.announcers import Announcers
from checkers.clients import reader
from checkers.directory import directory_of, group_standing
from checkers.facts import GroupStanding
from conf import Settings

_WAIT_MS = 500
_CLOSE_MS = 1_000
_MOST_GROUPS = 1_000


class Announced:
    """Follows ``cb.producers`` on a thread of its own, also when Kafka goes away and comes back.

    What heartbeats say is all that it knows: an endpoint that is heard from is well, whatever it answers.
    ``clock_ms`` is any clock that does not run backwards.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[Settings], Any] | None = None,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._connect = connect or reader
        self._clock_ms = clock_ms
        self._directory = directory_of(settings.checks)
        self._announcers = Announcers(settings)
        self._lock = threading.Lock()
        self._known = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkback-announced", daemon=True)

    def start(self) -> None:
        """Start; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    def standing(self) -> dict[str, GroupStanding] | None:
        """By producer group; None as long as it is not known which endpoints there are."""
        now_ms = self._clock_ms()
        with self._lock:
            if not self._known:
                return None
            names = self._directory.groups()[:_MOST_GROUPS]
            return {name: group_standing(self._directory, name, now_ms) for name in names}

    def _run(self) -> None:
        outage = Outage("reading announcements of endpoints", self._clock_ms)
        while not self._stopping.is_set():
            try:
                self._follow(outage)
            except Exception as error:  # noqa: BLE001  (it is for people: the job goes on, and does not know)
                with self._lock:
                    self._known = False
                self._stopping.wait(outage.failed(error))

    def _follow(self, outage: Outage) -> None:
        place = TopicPartition(self._settings.kafka.topics.producers, 0)
        consumer = self._connect(self._settings)
        try:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            end = consumer.end_offsets([place])[place]
            while not self._stopping.is_set():
                self._hear(poll(consumer, _WAIT_MS).get(place, []))
                if not self._known and consumer.position(place) >= end:
                    with self._lock:
                        self._known = True
                    outage.answered()
        finally:
            with suppress(Exception):
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _hear(self, records: list[Any]) -> None:
        """What is there from before is as old as Kafka says, by this machine's clock; else it is new."""
        now_ms, wall_ms = self._clock_ms(), time.time_ns() // 1_000_000
        with self._lock:
            for record in records:
                if record.key is not None:
                    age_ms = 0 if self._known else max(0, wall_ms - record.timestamp)
                    belief = self._announcers.belief(record)
                    self._directory.hear(record.key, record.value, now_ms - age_ms, belief)
