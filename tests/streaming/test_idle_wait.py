"""A job without work begins few batches, and is late with none."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from math import inf
from threading import Timer

import pytest
from kafka import KafkaProducer

from state import TIMER, TIMER_SLOT_MS, Tally
from streaming.batch.batch import BatchReport
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.offset_log import Entry
from streaming.idle_wait import DueTimers, IdleWait
from tests.place import Place

T = 1_764_000_000_000
"""The begin of a slot."""
TOLERANCE_MS = 600_000
LONG_SECONDS = 60.0


def due(*times_ms: int) -> Counter[Tally]:
    return Counter(Tally(TIMER, "", time_ms // TIMER_SLOT_MS) for time_ms in times_ms)


def known_timers() -> DueTimers:
    timers = DueTimers()
    timers.begin_with(())
    return timers


def test_nothing_is_due_before_the_next_timer() -> None:
    timers = known_timers()
    assert timers.after(T, T, Counter()) == inf
    assert timers.after(T, T, due(T + 60_000, T + 7_300)) == T + 6_000


def test_a_timer_may_be_due_until_a_batch_has_let_all_of_its_slot_fire() -> None:
    """A batch without rows is later than the one before, and does not move the watermark."""
    timers = known_timers()
    slot = T + 6_000
    assert timers.after(T, T, due(slot + 1_999)) == slot
    assert timers.after(slot + 1_900, T, Counter()) == slot
    assert timers.after(slot + 2_100, slot + 1_900, Counter()) == slot, "no rows: nothing moves"
    assert timers.after(slot + 2_300, slot + 1_900, Counter()) == slot, "its rows let the next batch fire"
    assert timers.after(slot + 2_500, slot + 2_300, Counter()) == inf


def test_a_timer_that_is_set_again_is_due_later() -> None:
    timers = known_timers()
    timers.after(T, T, due(T + 6_000))
    assert timers.after(T + 8_500, T + 8_000, due(T + 40_000)) == T + 40_000


def test_timers_of_an_older_checkpoint_are_unknown_until_its_state_is_counted() -> None:
    timers = DueTimers()
    assert timers.after(T, T, due(T + 9_000)) is None
    timers.begin_with([T + 4_000, T + 30_000])
    assert timers.after(T, T, Counter()) == T + 4_000
    assert timers.after(T + 7_500, T + 7_000, Counter()) == T + 8_000, "set by batches before the count"


def test_timers_far_ahead_are_kept_by_the_minute() -> None:
    timers = known_timers()
    timers.after(T, T, Counter())
    day_ms = T + 24 * 3_600_000
    timers.after(T, T, due(*range(day_ms, day_ms + 3_600_000, TIMER_SLOT_MS)))
    (first, last), *_, newest = sorted(timers._slots)
    assert first <= day_ms < last
    assert newest[1] >= day_ms + 3_600_000 - TIMER_SLOT_MS
    assert len(timers._slots) <= 58
    assert timers.after(last, last - 1, Counter()) == first
    assert timers.after(last, last, Counter()) == last


@pytest.fixture
def idle(place: Place) -> Iterator[IdleWait]:
    settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000)
    with closing(IdleWait(settings, TOLERANCE_MS, longest_seconds=LONG_SECONDS)) as idle:
        yield idle


def entry(place: Place, time_ms: float) -> Entry:
    ends = {topic: {"0": 0, "1": 0} for topic in (place.topics.half, place.topics.op)}
    return Entry(7, "", int(time_ms), 0, (ends, 7))


def report(batch: int = 7, written: int = 0, **counts: int) -> BatchReport:
    return BatchReport(batch, written, 0, Counter(counts))


def waited(idle: IdleWait, place: Place, done: BatchReport) -> float:
    began = time.monotonic()
    idle.after(done, entry(place, time.time() * 1000))
    return time.monotonic() - began


@pytest.mark.parametrize("name", ["half", "op"])
def test_a_record_ends_the_wait(place: Place, idle: IdleWait, name: str) -> None:
    topic = getattr(place.topics, name)
    idle.begin_with([])
    with closing(KafkaProducer(bootstrap_servers=place.bootstrap_servers)) as producer:
        writing = Timer(1.0, producer.send, (topic, b"x"), {"partition": 1})
        writing.start()
        seconds = waited(idle, place, report())
        writing.join()
    assert 0.9 < seconds < LONG_SECONDS / 2
    assert idle.waited_ms(7) == pytest.approx(1000 * seconds, abs=50)
    assert waited(idle, place, report()) < LONG_SECONDS / 2, "it is there already"


def test_a_stop_ends_the_wait_for_good(place: Place, idle: IdleWait) -> None:
    idle.begin_with([])
    stopping = Timer(0.5, idle.stop)
    stopping.start()
    assert waited(idle, place, report()) < LONG_SECONDS / 2
    assert waited(idle, place, report()) < 0.1


def test_a_timer_ends_the_wait(place: Place, idle: IdleWait) -> None:
    due_ms = int(time.time() * 1000) + 2 * TIMER_SLOT_MS
    idle.begin_with([due_ms - TOLERANCE_MS - 1])
    assert waited(idle, place, report()) < LONG_SECONDS / 2
    assert due_ms - TIMER_SLOT_MS <= time.time() * 1000


def test_a_batch_with_work_does_not_wait_nor_one_of_an_unknown_state(place: Place, idle: IdleWait) -> None:
    assert waited(idle, place, report()) < 0.1, "of an older checkpoint, not counted yet"
    idle.begin_with([])
    assert waited(idle, place, report(read=1)) < 0.1
    assert waited(idle, place, report(written=1)) < 0.1
