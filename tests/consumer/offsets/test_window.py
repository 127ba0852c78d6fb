"""Which offset may be stored, in whatever order messages are done."""

from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer.offsets.window import OffsetWindow


def taken(*offsets: int) -> OffsetWindow:
    window = OffsetWindow(offsets[0])
    for offset in offsets:
        window.taken(offset)
    return window


def test_what_is_stored_is_the_next_offset_to_read() -> None:
    """The seed's case: 0 done, then 5, then 1 to 4."""
    window = taken(*range(6))
    window.done(0)
    assert window.position == 1
    window.done(5)
    assert window.position == 1
    for offset in range(1, 5):
        window.done(offset)
    assert window.position == 6


def test_nothing_done_leaves_the_first() -> None:
    assert taken(5, 6, 7).position == 5


def test_a_later_one_done_leaves_the_earlier_one() -> None:
    window = taken(5, 6, 7)
    window.done(6)
    window.done(7)
    assert window.position == 5


def test_the_earliest_done_moves_past_all_that_are_done() -> None:
    window = taken(5, 6, 7)
    window.done(6)
    window.done(5)
    assert window.position == 7


def test_all_done_moves_to_the_next_message() -> None:
    window = taken(5, 6)
    window.done(5)
    window.done(6)
    assert window.position == 7
    window.taken(7)
    assert window.position == 7


def test_offsets_without_a_message_are_stepped_over() -> None:
    window = taken(5, 9)
    assert window.position == 5
    window.done(5)
    assert window.position == 9
    window.done(9)
    assert window.position == 10


def test_a_gap_after_everything_was_done_is_stepped_over_when_it_is_seen() -> None:
    window = taken(5)
    window.done(5)
    window.taken(8)
    assert window.position == 8


def test_a_gap_as_long_as_a_log_costs_nothing() -> None:
    window = taken(5, 10**14)
    window.done(10**14)
    assert window.done_ahead() == (5, [range(6, 10**14 + 1)])
    window.done(5)
    assert window.position == 10**14 + 1


def test_done_twice_is_done_once() -> None:
    window = taken(5, 6, 7)
    window.done(5)
    window.done(5)
    assert window.position == 6


def test_an_answer_from_before_the_window_changes_nothing() -> None:
    window = taken(5, 6)
    window.done(4)
    assert window.position == 5


def test_messages_taken_a_second_time_may_have_been_done_meanwhile() -> None:
    window = taken(5, 6, 7)
    window.done(6)
    assert [window.taken(offset) for offset in (5, 6, 7)] == [True, False, True]
    window.done(5)
    assert window.position == 7


def test_span_and_held_say_how_far_an_old_message_holds_the_window() -> None:
    window = taken(5, 6, 9)
    window.done(6)
    assert (window.span, window.held) == (5, 2)


def test_what_the_reader_before_has_done_is_passed_over() -> None:
    window = OffsetWindow(5, [range(7, 9), range(20, 22)])
    assert [offset for offset in range(5, 24) if window.taken(offset)] == [5, 6, *range(9, 20), 22, 23]
    assert window.position == 5


def test_what_the_reader_before_has_done_is_stored_again_before_it_is_reached() -> None:
    window = OffsetWindow(5, [range(7, 9), range(20, 22)])
    assert window.done_ahead() == (5, [range(7, 9), range(20, 22)])
    window.taken(5)
    assert window.done_ahead() == (5, [range(7, 9), range(20, 22)])
    window.done(5)
    assert window.done_ahead() == (6, [range(7, 9), range(20, 22)])
    window.taken(8)
    assert window.done_ahead() == (9, [range(20, 22)])


def test_what_is_about_to_be_done_can_be_asked_for_before_it_is() -> None:
    window = taken(5, 6, 7)
    assert window.done_ahead([5]) == (6, [])
    assert window.done_ahead([6]) == (5, [range(6, 7)])
    assert window.position == 5


@given(st.data())
def test_it_is_as_a_plain_set_says(data: st.DataObject) -> None:
    """Two readers, one after the other: what is done, where the position is, and what the second works on."""
    steps = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=40), label="steps")
    offsets = [sum(steps[: number + 1]) for number in range(len(steps))]
    done = set[int]()
    window = OffsetWindow(offsets[0])
    for _ in range(2):
        waiting = [offset for offset in offsets if offset >= window.next]
        under_way = set[int]()
        for _ in range(data.draw(st.integers(0, 60), label="for how long")):
            if waiting and (not under_way or data.draw(st.booleans(), label="take another")):
                offset = waiting.pop(0)
                assert window.taken(offset) == (offset not in done)
                if offset not in done:
                    under_way.add(offset)
            elif under_way:
                offset = data.draw(st.sampled_from(sorted(under_way)), label="done")
                window.done(offset)
                under_way.remove(offset)
                done.add(offset)
            seen = [offset for offset in offsets if offset < window.next]
            assert window.position == min(under_way, default=window.next)
            assert window.held == len(under_way)
            assert {one for one in seen if window.under_way(one)} == under_way
        position, ahead = window.done_ahead()
        claimed = {offset for one in ahead for offset in one}
        assert claimed & set(offsets) == {offset for offset in done if offset >= position}
        assert not any(offset < position and offset not in done for offset in offsets)
        assert set(window.done_behind(position)) & set(offsets) <= done
        window = OffsetWindow(position, ahead)
