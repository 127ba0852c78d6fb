"""Holds back batches that would do nothing: a job without work begins one every five seconds, not two a second.

Spark begins a batch for each row of the clock, and another one to let timers fire. Each costs as much CPU as a small
batch with work. So a batch that has read nothing ends only when Kafka has something to read or a timer may be due.
"""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from threading import Event, Lock
from time import monotonic, time

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import Consumer, TopicPartition
from state import TIMER, TIMER_SLOT_MS, Tallies
from streaming.batch.batch import BatchReport
from streaming.brokers.client import ANSWER_BYTES, SinkSettings
from streaming.checkpoint.offset_log import Entry

LONGEST_SECONDS = 5.0
"""Whatever is known of timers: with each batch the job looks for another run and a changed access policy."""
_LOOK_SECONDS = 0.1
_KEPT_BATCHES = 100
_FAR_MS = 3_600_000
_FAR_SLOTS = 32
"""Together one: else timers of messages that are delayed by up to 40 days would be a million."""


class DueTimers:
    """When timers of the state are due, in slots of two seconds, or of a minute if they are far ahead. No I/O.

    All times are in ms since 1970.
    """

    def __init__(self) -> None:
        self._slots: set[tuple[int, int]] = set()
        """Begin and end of each."""
        self._ordered: list[tuple[int, int]] = []
        self._all_known = False
        self._newest_ms = 0

    def begin_with(self, due_ms: Iterable[int]) -> None:
        """Take in all timers that the state had at some batch of this run; later batches are taken in anyhow."""
        for slot in {one // TIMER_SLOT_MS for one in due_ms}:
            self._add(slot)
        self._all_known = True

    def after(self, time_ms: int, fired_to_ms: int, tallies: Tallies) -> float | None:
        """Take in a batch, and the timers that it has set.

        Args:
            time_ms: the batch's own time.
            fired_to_ms: timers that were due before it have fired. A batch without rows does not move it, and one with
                rows moves it for the next batch.
            tallies: the batch's; those of ``TIMER`` count.

        Returns:
            Until when no timer is due, which may have passed; infinite if there is none. None: that is not known.
        """
        self._newest_ms = time_ms
        for tally in tallies:
            if tally.name == TIMER:
                self._add(tally.size)
        while self._ordered and self._ordered[0][1] <= fired_to_ms:
            self._slots.remove(heappop(self._ordered))
        return (self._ordered[0][0] if self._ordered else inf) if self._all_known else None

    def _add(self, number: int) -> None:
        width = _FAR_SLOTS if 0 < self._newest_ms < number * TIMER_SLOT_MS - _FAR_MS else 1
        first = number - number % width
        slot = first * TIMER_SLOT_MS, (first + width) * TIMER_SLOT_MS
        if slot not in self._slots:
            self._slots.add(slot)
            heappush(self._ordered, slot)


class IdleWait:
    """Waits at the end of batches that have read and written nothing. One thread calls :meth:`after`.

    Of a checkpoint that is older than this run it waits for :meth:`begin_with`, and lets Spark go on until then.
    """

    def __init__(self, settings: SinkSettings, tolerance_ms: int, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._tolerance_ms, self._longest_ms = tolerance_ms, longest_seconds * 1000
        self._stopped, self._trouble = Event(), Event()
        self._lock, self._timers = Lock(), DueTimers()
        self._waited_ms: dict[int, int] = {}
        self._consumer = make_client(
            Consumer,
            {
                **settings.client(error_cb=lambda _error: self._trouble.set()),
                "group.id": "checkback-idle",  # librdkafka requires a name; the consumer joins no group
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "receive.message.max.bytes": ANSWER_BYTES,
                "fetch.message.max.bytes": 1_024,
                "queued.max.messages.kbytes": 1_024,
            },
        )

    def begin_with(self, timeouts_ms: Iterable[int]) -> None:
        """Take in Spark's timeouts of all segments."""
        with self._lock:
            self._timers.begin_with(one + self._tolerance_ms + 1 for one in timeouts_ms)

    def stop(self) -> None:
        """End the wait, and begin no further one."""
        self._stopped.set()

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._consumer.close()

    def waited_ms(self, batch: int) -> int:
        """For how long a batch has waited, of the last hundred: Spark counts it as work."""
        return self._waited_ms.get(batch, 0)

    def after(self, report: BatchReport, entry: Entry) -> None:
        """Wait while there is nothing to do. ``entry`` is the batch's in the offset log."""
        with self._lock:
            if report.batch == 0:
                self._timers.begin_with(())
            due_ms = self._timers.after(entry.time_ms, entry.watermark_ms + self._tolerance_ms, report.tallies)
        if due_ms is None or report.written or report.counts["read"]:
            return
        began, now_ms = monotonic(), time() * 1000
        until_ms = min(due_ms, entry.time_ms + self._longest_ms)
        self._wait_until(began + (until_ms - now_ms) / 1000, entry.read_to())  # the wall clock may be set back
        self._waited_ms[report.batch] = round(1000 * (monotonic() - began))
        self._waited_ms.pop(report.batch - _KEPT_BATCHES, None)

    def _wait_until(self, end: float, read_to: Mapping[tuple[str, int], int]) -> None:
        if self._stopped.is_set() or monotonic() >= end:
            return
        self._trouble.clear()
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in read_to.items()])
        while monotonic() < end and not self._stopped.is_set() and not self._trouble.is_set():
            if self._consumer.poll(_LOOK_SECONDS) is not None:  # a record, or an error that Spark will meet, too
                break
        self._consumer.unassign()
