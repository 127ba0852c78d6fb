"""What is read of a partition that is too long to be read whole."""

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from checkback.kafka.record_ranges import RangeReader, ReadLimits, Unread, between, stretches
from tests.needs_no_repair import NeedsNoRepair

OFFSETS = st.integers(0, 1_000)


@given(st.lists(OFFSETS), OFFSETS, st.integers(0, 500))
def test_stretches_are_in_order_within_the_limit_and_begin_where_asked(starts: list[int], stop: int, most: int) -> None:
    found = stretches(starts, stop, most)
    assert sum(end - begin for begin, end in found) <= most
    assert all(begin < end <= stop for begin, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    assert {begin for begin, _ in found} <= set(starts)


@given(st.lists(OFFSETS, min_size=1), OFFSETS, st.integers(0, 500))
def test_what_is_left_out_and_what_is_read_are_the_whole(starts: list[int], stop: int, most: int) -> None:
    begin = min(starts)
    found = stretches(starts, stop, most)
    covered = [offset for one in (*found, *between(found, begin, stop)) for offset in range(*one)]
    assert sorted(covered) == list(range(begin, stop))


@given(st.lists(OFFSETS, min_size=1), OFFSETS)
def test_all_is_read_where_there_is_room(starts: list[int], stop: int) -> None:
    assert stretches(starts, stop, 1_001) == ([(min(starts), stop)] if min(starts) < stop else [])


def test_each_start_has_its_share_and_the_first_what_is_left_over() -> None:
    assert stretches([0, 100], 1_000, 20) == [(0, 10), (100, 110)]
    assert stretches([0, 995], 1_000, 20) == [(0, 15), (995, 1_000)]
    assert between([(0, 10), (100, 110)], 0, 1_000) == [(10, 100), (110, 1_000)]


class Record(NamedTuple):
    offset: int


class Log(NeedsNoRepair):
    """A consumer of one partition, whose records have their offsets as time stamps and come ten at a time."""

    def __init__(self, *offsets: int, end: int) -> None:
        self._offsets = offsets
        self._end = end
        self._at: dict[Any, int] = {}
        self.given: list[int] = []

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def beginning_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, min(self._offsets, default=0))

    def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, self._end)

    def offsets_for_times(self, times: dict[Any, int]) -> dict[Any, Any]:
        later = {place: [offset for offset in self._offsets if offset >= time] for place, time in times.items()}
        return {place: OffsetAndTimestamp(found[0], 0, -1) if found else None for place, found in later.items()}

    def assign(self, places: list[Any]) -> None:
        self._at = dict.fromkeys(places, 0)

    def pause(self, *places: Any) -> None:
        pass

    resume = pause

    def seek(self, place: Any, offset: int) -> None:
        self._at[place] = offset

    def position(self, place: Any) -> int:
        return self._at[place]

    def poll(self, timeout_ms: int, max_records: int | None = None) -> dict[Any, list[Record]]:
        ((place, at),) = self._at.items()
        found = [offset for offset in self._offsets if offset >= at][:10]
        self._at[place] = found[-1] + 1 if len(found) == 10 else self._end
        self.given += found
        return {place: [Record(offset) for offset in found]}


def test_records_behind_some_moments_are_read_and_the_rest_is_named() -> None:
    log = Log(*range(100), end=100)
    reader = RangeReader(log, ReadLimits(records=20))
    found = reader.read("t", [0], [10, 60], lambda record: record.offset % 2 == 0)
    assert [record.offset for record in found] == [10, 12, 14, 16, 18, 60, 62, 64, 66, 68]
    assert reader.unread == [Unread("t", 0, 20, 60), Unread("t", 0, 70, 100)]
    assert str(reader.unread[0]) == "t-0: offsets 20 to 59"


def test_a_moment_after_the_last_record_reads_nothing_and_misses_nothing() -> None:
    reader = RangeReader(Log(1, 2, 3, end=4))
    assert reader.read("t", [0], [7], lambda _: True) == []
    assert reader.unread == []


def test_moment_zero_is_the_beginning() -> None:
    reader = RangeReader(Log(5, 6, end=9))
    assert [record.offset for record in reader.read("t", [0], [0], lambda _: True)] == [5, 6]
    assert reader.unread == []


def test_when_time_is_up_what_is_left_is_named() -> None:
    times = iter([0.0, 0.0, 1.0, 9.0])
    reader = RangeReader(Log(*range(100), end=100), ReadLimits(seconds=5.0), clock=lambda: next(times))
    found = reader.read("t", [0], [0], lambda _: True)
    assert [record.offset for record in found] == list(range(20))
    assert reader.unread == [Unread("t", 0, 20, 100)]


def test_it_tells_how_far_it_is() -> None:
    told: list[tuple[str, int, int]] = []
    reader = RangeReader(Log(*range(25), end=25), tell=lambda *said: told.append(said))
    reader.read("t", [0], [0], lambda _: True)
    assert told == [("t", 10, 25), ("t", 20, 25), ("t", 25, 25)]


def test_without_partitions_nothing_is_asked() -> None:
    assert RangeReader(Log(end=0)).read("t", [], [0], lambda _: True) == []
    assert RangeReader(Log(end=0)).read_stretches({}, lambda _: True) == []


@pytest.mark.parametrize("stop", [2, 3])
def test_no_record_behind_a_stretch_is_given(stop: int) -> None:
    found = RangeReader(Log(1, 2, 3, end=4)).read_stretches({TopicPartition("t", 0): [(1, stop)]}, lambda _: True)
    assert [record.offset for record in found] == list(range(1, stop))
