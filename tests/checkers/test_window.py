"""Which offset may be committed, in whatever order checks are answered."""

from hypothesis import given
from hypothesis import strategies as st

from checkers import OffsetWindow


def taken(*offsets: int) -> OffsetWindow:
    window = OffsetWindow(offsets[0])
    for offset in offsets:
        window.begin(offset)
    return window


def test_nothing_done_leaves_the_first() -> None:
    assert taken(5, 6, 7).committable == 5


def test_a_later_one_done_leaves_the_earlier_one() -> None:
    window = taken(5, 6, 7)
    window.finish(6)
    window.finish(7)
    assert window.committable == 5


def test_the_earliest_done_moves_past_all_that_are_done() -> None:
    window = taken(5, 6, 7)
    window.finish(6)
    window.finish(5)
    assert window.committable == 7


def test_all_done_moves_to_the_next_record() -> None:
    window = taken(5, 6)
    window.finish(5)
    window.finish(6)
    assert window.committable == 7
    window.begin(7)
    assert window.committable == 7


def test_offsets_without_a_record_are_stepped_over() -> None:
    window = taken(5, 9)
    assert window.committable == 5
    window.finish(5)
    assert window.committable == 9
    window.finish(9)
    assert window.committable == 10


def test_a_hole_after_everything_was_done_is_stepped_over_when_it_is_seen() -> None:
    window = taken(5)
    window.finish(5)
    window.begin(8)
    assert window.committable == 8


def test_done_twice_is_done_once() -> None:
    window = taken(5, 6, 7)
    window.finish(5)
    window.finish(5)
    assert window.committable == 6


def test_an_answer_from_before_the_window_changes_nothing() -> None:
    window = taken(5, 6)
    window.finish(4)
    assert window.committable == 5


def test_records_taken_a_second_time_may_have_been_done_meanwhile() -> None:
    window = taken(5, 6, 7)
    window.finish(6)
    for offset in (5, 6, 7):
        window.begin(offset)
    window.finish(5)
    assert window.committable == 7


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.integers(0, 1_000), st.data())
def test_committable_is_the_lowest_unfinished(steps: list[int], first: int, data: st.DataObject) -> None:
    offsets = [first]
    for step in steps:
        offsets.append(offsets[-1] + step)
    window = OffsetWindow(first)
    waiting, begun, unfinished = offsets[:], first - 1, set[int]()
    while waiting or unfinished:
        if waiting and (not unfinished or data.draw(st.booleans(), label="take another")):
            begun = waiting.pop(0)
            window.begin(begun)
            unfinished.add(begun)
        else:
            done = data.draw(st.sampled_from(sorted(unfinished)), label="finish")
            window.finish(done)
            unfinished.remove(done)
        assert window.committable == min(unfinished, default=begun + 1)
