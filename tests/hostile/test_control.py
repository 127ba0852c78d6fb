"""Consumers that hear orders, while anything lies in the topic of orders."""

from tests.consumer.group import member, write
from tests.consumer.waiting import Recording, soon
from tests.hostile.place import GROUP, pollute
from tests.place import Place


def test_a_consumer_goes_on(place: Place) -> None:
    seen = Recording()
    write(place, *(b"before %d" % number for number in range(8)))
    with member(place, seen, group=GROUP, hear_resets=True) as consumer:
        soon(lambda: len(set(seen.values)) == 8)
        pollute(place, place.topics.control)
        write(place, *(b"behind %d" % number for number in range(8)))
        soon(lambda: len(set(seen.values)) == 16)
        soon(lambda: not consumer.figures().lag)
        consumer.raise_if_dead()
