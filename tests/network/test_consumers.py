"""A consumer whose requests arrive late: each message is sent back once, and stored offsets never go back."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from time import monotonic, sleep
from typing import NamedTuple

import pytest

from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.consumer.listener import TopicPartition
from tests.consumer.group import group_of, member, stored_by
from tests.network.late import arriving, each_late_at_a_step
from tests.place import Place, wait_until
from torture.network.proxy import Api, Deed, KafkaProxy, Rule


def try_later(_message: ReceivedMessage) -> ConsumeResult:
    return ConsumeResult.LATER


def write_one(place: Place, value: bytes) -> int:
    """A message to the first partition of the test's topic; its offset."""
    producer = place.producer()
    try:
        written = producer.send(place.real_topic, value, headers=[("cb-id", value)], partition=0)
        return int(written.get(60).offset)
    finally:
        producer.close()


def copies(place: Place) -> Counter[bytes]:
    """How often each message is in ``cb.later``."""
    return Counter(record.value for record in place.read(place.topics.later))


def stored_offset(place: Place) -> int:
    """What the group has stored for the first partition; 0 when there is nothing."""
    stored = stored_by(place).get(TopicPartition(place.real_topic, 0))
    return 0 if stored is None else stored.offset


class SentBack(NamedTuple):
    """What became of messages that a consumer sent back, when its offsets were to be stored with them."""

    copies: dict[bytes, int]
    """In ``cb.later``."""
    stored: int
    end: int
    """Where the offset has to be."""

    @property
    def once(self) -> bool:
        """Whether each was sent back once, and is not read again."""
        return self.copies == {b"%d" % one: 1 for one in range(self.end)} and self.stored == self.end


def send_back(place: Place, network: KafkaProxy, api: Api, step: Api) -> SentBack:
    """Send back one message after another, until a late request of the first has arrived within another one's."""
    late = Rule(api, Deed.HOLD_AND_CUT, f"{place.topics.prefix}consumer.{group_of(place.topics)}.".encode())
    network.add(late)
    with member(place.on(network.address), try_later, store_interval=3_600.0):
        for number in count():
            value = b"%d" % number
            end = write_one(place, value) + 1
            wait_until(lambda: copies(place)[value] > 0)  # noqa: B023  (called before the next round)
            wait_briefly(lambda: stored_offset(place) == end)  # noqa: B023  (called before the next round)
            if late.answered:
                break
            if not number:
                network.add(arriving(step, late))
        stored = stored_offset(place)  # when it ends by itself, a consumer stores it again
    return SentBack(copies(place), stored, end)


def test_a_late_commit_before_the_offsets_of_the_next_transaction(
    place: Place, network: KafkaProxy, *, cured: bool
) -> None:
    """F4: the retry came twice."""
    assert send_back(place, network, Api.END_TXN, Api.TXN_OFFSET_COMMIT).once is cured


def test_late_offsets_before_the_end_of_the_next_transaction(place: Place, network: KafkaProxy, *, cured: bool) -> None:
    """F5: the stored offset was that of the transaction before."""
    assert send_back(place, network, Api.TXN_OFFSET_COMMIT, Api.END_TXN).once is cured


@each_late_at_a_step
def test_any_late_request_at_any_step_of_the_next_transaction(
    place: Place, network: KafkaProxy, api: Api, step: Api
) -> None:
    assert send_back(place, network, api, step).once


def success_then_later(message: ReceivedMessage) -> ConsumeResult:
    return ConsumeResult.SUCCESS if message.value in {b"0", b"1"} else ConsumeResult.LATER


@pytest.mark.parametrize("name", [None, "static"])
def test_a_late_plain_store_after_a_transaction(
    place: Place, network: KafkaProxy, name: str | None, *, cured: bool
) -> None:
    """The stored offset was that before the transaction, and stayed: after a SIGKILL, the message was handled again."""
    late = Rule(Api.OFFSET_COMMIT, Deed.HOLD_AND_CUT, group_of(place.topics).encode())
    with member(place.on(network.address), success_then_later, name=name, store_interval=3_600.0):
        write_one(place, b"0")
        wait_until(lambda: stored_offset(place) == 1)
        network.add(late)
        write_one(place, b"1")
        wait_until(lambda: stored_offset(place) == 2)
        end = write_one(place, b"2") + 1
        wait_until(lambda: copies(place)[b"2"] > 0)
        wait_briefly(lambda: stored_offset(place) == end)
        network.wait(late.request.arrive())
        stored = stored_offset(place)
        write_one(place, b"3")
        wait_until(lambda: copies(place)[b"3"] > 0)
    assert (stored == end) is cured
    assert copies(place) == {b"2": 1, b"3": 1}


def wait_briefly(holds: Callable[[], bool]) -> None:
    """For Kafka to write the markers of a transaction that can be read in another topic: a longer wait is in vain."""
    until = monotonic() + 10.0
    while not holds() and monotonic() < until:
        sleep(0.05)
