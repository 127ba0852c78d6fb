"""Records as nobody should write them, and anybody can: among good ones, in one batch with them, in front of consumers.

What a client cannot read is a dead letter, alone; all else comes to the listener.
"""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from checkback.consumer import Mode, PullConsumer, PullStatus, TopicPartition
from checkback.consumer.resetting.control import ResetOrder
from checkback.consumer.resetting.control_topic import ControlTopic
from tests.by_hand import Record, write_by_hand
from tests.consumer.group import group_of, member, stored_by
from tests.consumer.waiting import Recording, soon
from tests.hostile.records import READABLE, UNREADABLE
from tests.place import Place as Topics

GOOD: Record = (b"key", b"good", [(b"cb-id", b"1")])


def write(place: Topics, topic: str, partition: int = 0, without_key: bytes | None = None) -> list[Record]:
    """All of them, with good ones between, in one batch. ``without_key``: what stands for no key, where it must."""
    records = [one for odd in (*UNREADABLE.values(), *READABLE.values()) for one in (GOOD, odd)]
    records = [(without_key if key is None else key, value, headers) for key, value, headers in records]
    host, _, port = place.bootstrap_servers.rpartition(":")
    write_by_hand((host, int(port)), topic, partition, *records, GOOD)
    return [*records, GOOD]


def contents(*records: Record) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((key, value) for key, value, _ in records)


@pytest.mark.parametrize("topic", ["real", "retry"])
def test_a_push_consumer_makes_dead_letters_of_those_alone_that_it_cannot_read(place: Topics, topic: str) -> None:
    group = group_of(place.topics)
    read = {"real": place.real_topic, "retry": place.topics.retry(group)}[topic]
    seen = Recording()
    with member(place, seen) as consumer:
        written = write(place, read)
        soon(lambda: consumer.figures().all.dead == len(UNREADABLE))
        soon(lambda: len(seen.messages) == len(written) - len(UNREADABLE))
        soon(lambda: not consumer.figures().lag)
        consumer.raise_if_dead()
    got = Counter((message.key, message.value) for message in seen.messages)
    assert got == contents(*written) - contents(*UNREADABLE.values())
    letters = place.read(place.topics.dead(group))
    assert Counter((one.key, one.value) for one in letters) == contents(*UNREADABLE.values())
    of_ours = next(one for one in letters if one.value == b"of ours")
    headers = dict(of_ours.headers)
    assert headers["checkback-reason"] == b"a header's name is not UTF-8"
    assert headers["checkback-origin"] == f"{read}:0:5".encode()
    if topic == "real":
        assert stored_by(place)[TopicPartition(read, 0)].offset == len(written)


def test_a_broadcasting_consumer_drops_those_alone(
    place: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = write(place, place.real_topic)
    seen = Recording()
    with member(place, seen, mode=Mode.BROADCASTING, offset_file=tmp_path / "offsets") as consumer:
        soon(lambda: consumer.figures().all.given_up == len(UNREADABLE))
        soon(lambda: len(seen.messages) == len(written) - len(UNREADABLE))
        soon(lambda: not consumer.figures().lag)
        consumer.raise_if_dead()
    assert "is dropped (a header's name is not UTF-8)" in caplog.text


def test_a_pull_consumer_says_which_it_cannot_read(place: Topics) -> None:
    written = write(place, place.real_topic)
    got: list[Record] = []
    unreadable: list[int] = []
    with PullConsumer(place.bootstrap_servers) as consumer:
        offset = 0
        while offset < len(written):
            found = consumer.pull(place.real_topic, 0, offset, max=5, wait_ms=10_000)
            assert found.status is PullStatus.FOUND
            got += [(one.key, one.value, ()) for one in found.messages]
            unreadable += found.unreadable
            offset = found.next_offset
        alone = consumer.pull(place.real_topic, 0, unreadable[0], max=1)
    assert contents(*got) == contents(*written) - contents(*UNREADABLE.values())
    assert unreadable == [offset for offset, record in enumerate(written) if record in UNREADABLE.values()]
    assert alone[:2] == (PullStatus.NO_MATCHED_MESSAGE, unreadable[0] + 1)


def test_an_order_to_a_group_is_heard_behind_anything(place: Topics) -> None:
    order = ResetOrder("order", "points", place.real_topic, {0: 1})
    control = ControlTopic(place.topics.control, place.bootstrap_servers, {})
    try:
        assert control.go_to_end()
        write(place, place.topics.control, without_key=b"none")  # it is compacted
        control.write({order.key: order.value})
        soon(lambda: order.value in [one.value for one in control.read(1)])
    finally:
        control.close()


def test_what_is_compressed_comes(place: Topics) -> None:
    """The libraries come with the package; those of confluent-kafka are in it."""
    kinds = ("none", "gzip", "none", "lz4", "none", "snappy", "none", "zstd", "none")
    for packed in kinds:
        write_ten(place, packed)
    seen = Recording()
    with member(place, seen) as consumer:
        soon(lambda: len(seen.messages) == 10 * len(kinds))
        consumer.raise_if_dead()


def write_ten(place: Topics, packed: str) -> None:
    """In one batch."""
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "compression.type": packed, "linger.ms": 50})
    for number in range(10):
        producer.produce(place.real_topic, f"{packed} {number}".encode() * 100, partition=0)
    assert producer.flush(120) == 0
