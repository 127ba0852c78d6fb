"""Cases that consumers must hold by name, on a real Kafka; those of pulling: ``test_pull.py``."""

import logging
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, closing

import pytest

from checkback.consumer import ConsumeResult, MessageCounts, PushConsumer, ReceivedMessage, StartAt
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import decode
from checkback.consumer.retry import ORIGIN, TRIES, OwnTopics
from checkback.kafka.topic_reading import reading_consumer, records_as_they_come
from checkback.wire.sent_back import REASON
from tests.consumer.group import group_of, member, stored_by
from tests.consumer.group import write as write_everywhere
from tests.consumer.waiting import Recording, soon
from tests.place import Place as Topics

LATER, SUCCESS = ConsumeResult.LATER, ConsumeResult.SUCCESS
NEVER = 1_000.0
"""Seconds; a store interval, where something else must have stored."""
HOUR_MS = 3_600_000


def write(place: Topics, *values: bytes, ago_ms: int = 0) -> None:
    """Messages to the first partition, as if some time ago."""
    producer = place.producer()
    at = int(time.time() * 1000) - ago_ms
    for value in values:
        producer.send(place.real_topic, value, headers=[("cb-id", value)], partition=0, timestamp_ms=at)
    producer.flush()
    producer.close()


def test_window_0_then_5_then_1_to_4(place: Topics) -> None:
    """Stored periodically, by the way: something is under way all the time."""
    may_end: defaultdict[int, threading.Event] = defaultdict(threading.Event)

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        may_end[message.offset].wait(60)
        return SUCCESS

    def stored() -> tuple[int, tuple[range, ...]]:
        found = stored_by(place)[TopicPartition(place.real_topic, 0)]
        return found.offset, decode(found).done

    write(place, *(b"%d" % number for number in range(7)))
    with member(place, seen := Recording(says), concurrency=7):
        soon(lambda: len(seen.values) == 7)
        may_end[0].set()
        soon(lambda: stored() == (1, ()))
        may_end[5].set()
        soon(lambda: stored() == (1, (range(5, 6),)))
        for offset in range(1, 5):
            may_end[offset].set()
        soon(lambda: stored() == (6, ()))
        may_end[6].set()
        soon(lambda: stored() == (7, ()))


def test_where_a_group_starts_with_and_without_a_stored_offset(place: Topics, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    groups = {start_at: f"{start_at}-{group_of(place.topics)}" for start_at in StartAt}
    write(place, b"0", b"1", ago_ms=HOUR_MS)
    write(place, b"2", b"3", ago_ms=HOUR_MS // 6)
    begins = {StartAt.LAST: 4, StartAt.FIRST: 0, StartAt.TIMESTAMP: 2}
    seen = {start_at: Recording() for start_at in StartAt}
    with ExitStack() as running:
        for start_at, group in groups.items():
            running.enter_context(member(place, seen[start_at], group=group, start_at=start_at))
        for group in groups.values():
            soon(lambda: len(stored_by(place, group)) == 4)  # noqa: B023  (called at once)
        write(place, b"4")
        soon(lambda: all(b"4" in one.values for one in seen.values()))
    for start_at, first in begins.items():
        assert sorted(seen[start_at].values) == [b"%d" % number for number in range(first, 5)]
        assert f"{place.real_topic}-0: the group has no stored offset; it begins at {first} of 0 to 4" in caplog.text
    write(place, b"while nobody runs")
    caplog.clear()
    others = {StartAt.LAST: StartAt.FIRST, StartAt.FIRST: StartAt.TIMESTAMP, StartAt.TIMESTAMP: StartAt.LAST}
    again = {start_at: Recording() for start_at in StartAt}
    with ExitStack() as running:
        for start_at, group in groups.items():
            running.enter_context(member(place, again[start_at], group=group, start_at=others[start_at]))
        soon(lambda: all(one.values for one in again.values()))
        write(place, b"and then")
        soon(lambda: all(b"and then" in one.values for one in again.values()))
    assert [one.values for one in again.values()] == [[b"while nobody runs", b"and then"]] * 3
    assert f"{place.real_topic}-0: the group has no stored offset" not in caplog.text


def test_stored_with_the_fetch_loop_on_revocation_and_on_close(place: Topics) -> None:
    """The fourth moment, periodically, is that of the window's test."""
    first_has_closed = threading.Event()

    def holds(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.value == b"held":
            first_has_closed.wait(60)
        return SUCCESS

    def stored() -> dict[int, int]:
        return {one.partition: found.offset for one, found in stored_by(place).items()}

    def has(one: PushConsumer) -> set[int]:
        return {
            part.partition.partition for part in one.figures().partitions if part.partition.topic == place.real_topic
        }

    first, second = Recording(holds), Recording()
    one = member(place, first, concurrency=8, store_interval=NEVER, finish_wait=0.2)
    two = member(place, second, store_interval=NEVER)
    with one, ExitStack() as later:
        write_everywhere(place, *[b"done"] * 4)
        soon(lambda: stored() == dict.fromkeys(range(4), 1), what="storing with the fetch loop")
        write_everywhere(place, *[b"also done"] * 4, *[b"held"] * 4)
        soon(lambda: len(first.values) == 12)
        assert stored() == dict.fromkeys(range(4), 1)
        later.enter_context(two)
        soon(lambda: has(two) and has(one) | has(two) == set(range(4)) and not has(one) & has(two))
        gone = has(two)
        soon(lambda: {part: offset for part, offset in stored().items() if offset == 3}.keys() == gone)
        assert {stored()[part] for part in has(one)} == {1}, "what stays is stored when it goes"
        one.close()
        first_has_closed.set()
        soon(lambda: stored() == dict.fromkeys(range(4), 3), what="what was left")
    assert second.values == [b"held"] * 4, "nothing that was done came again"


def test_retry_levels_in_their_order_sixteen_times_and_then_it_is_dead(place: Topics) -> None:
    """A job in some lines, which waits for nothing; with the whole job: ``tests/end_to_end/test_retries.py``."""
    levels = tuple(100.0 * number for number in range(1, 19))
    own = OwnTopics.of(place.topics, group_of(place.topics))
    waits: list[int] = []
    write(place, b"bad", b"well")
    seen = Recording(lambda message, _: LATER if message.value == b"bad" else SUCCESS)
    with (
        member(place, seen, retry_levels=levels) as points,
        closing(reading_consumer(place.bootstrap_servers)) as reading,
        closing(place.producer()) as producer,
    ):
        for record in records_as_they_come(reading, own.later, lambda: len(waits) == 16, idle_ms=60_000):
            waits.append(round((int(dict(record.headers)["cb-deliver-at"]) - record.timestamp) / 100_000))
            headers = [pair for pair in record.headers if not pair[0].startswith("cb-")]
            producer.send(own.retry, record.value, record.key, headers=headers).get(120)
        soon(lambda: points.figures().all == MessageCounts(done=1, retried=16, dead=1))
        soon(lambda: points.figures().lag == 0)
    assert waits == list(range(3, 19))
    assert [message.tries for message in seen.messages if message.value == b"bad"] == list(range(17))
    assert seen.counts[b"well"] == 1
    (dead,) = place.read(own.dead)
    said = dict(dead.headers)
    assert (dead.value, said[REASON], said[TRIES]) == (b"bad", b"tried 17 times in vain", b"17")
    assert said[ORIGIN] == f"{place.real_topic}:0:0".encode()
