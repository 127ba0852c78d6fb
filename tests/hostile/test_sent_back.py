"""Consumers with a listener that never succeeds: each hostile record is sent back, or is a dead letter, alone."""

import pytest

from checkback.consumer import ConsumeResult
from tests.consumer.group import group_of, member
from tests.consumer.waiting import Recording, soon
from tests.hostile.place import kinds
from tests.hostile.records import GOOD, UNREADABLE, write_all
from tests.place import Place


@pytest.mark.parametrize("again", [0, 2], ids=["dead at once", "tried again"])
def test_each_is_sent_back_or_dead(place: Place, again: int) -> None:
    seen = Recording(lambda *_: ConsumeResult.LATER)
    hostile = list(kinds(place)[place.real_topic].hostile())
    with member(place, seen, max_reconsume_times=again) as consumer:
        count = write_all(place.bootstrap_servers, place.real_topic, hostile, good=GOOD)
        soon(lambda: consumer.figures().all.dead + consumer.figures().all.retried == count)
        soon(lambda: not consumer.figures().lag)
        consumer.raise_if_dead()
    dead, later = (place.read(topic) for topic in (place.topics.dead(group_of(place.topics)), place.topics.later))
    assert len(dead) + len(later) == count
    goods = count - len(hostile)
    assert sum(record.value == GOOD[1] for record in (later if again else dead)) == goods
    assert len(UNREADABLE) <= len(dead) < count if again else not later
