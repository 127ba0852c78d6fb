"""A sum that is known once its beginning was counted."""

from operator import add

from streaming.fairness.quotas import RunningTotal


def test_nothing_is_known_until_it_was_counted() -> None:
    size = RunningTotal(add)
    for batch, change in ((5, 10), (6, -3), (7, 20)):
        size.changed(batch, change)
    assert size.now is None
    size.begin_with(6, 100)
    assert size.now == 120
    size.changed(8, -50)
    assert size.now == 70


def test_a_batch_that_was_counted_does_not_count_again() -> None:
    size = RunningTotal(add)
    size.begin_with(3, 100)
    size.changed(3, 10)
    assert size.now == 100


def test_what_is_known_is_not_begun_again() -> None:
    """Counting takes a while, and batches continue meanwhile."""
    size = RunningTotal(add)
    size.begin_with(-1, 0)
    for batch in range(5):
        size.changed(batch, 10)
    size.begin_with(2, 30)
    assert size.now == 50
