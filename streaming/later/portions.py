"""How many records of ``cb.later`` are moved in one transaction, by how the one before went.

Brokers that take few at a time need small ones; and in ever smaller ones a record that is refused is found.
"""

MOST_AT_ONCE = 500
_QUICK = 0.25
"""Of a transaction's time: with twice as many it does not run out."""


def after_failing(count: int) -> int:
    """How many to try after a transaction of so many that did not come through."""
    return max(1, count // 2)


def after_success(at_once: int, share_of_time: float) -> int:
    """How many to try after a transaction that took this share of the time that it had."""
    return min(MOST_AT_ONCE, 2 * at_once) if share_of_time < _QUICK else at_once
