"""What Kafka has forgotten, or made again, of ``cb.later``."""

import logging
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import NewPartitions

from checkback.exceptions import JobStoppedError
from checkback.operations.topics import TopicAdministration
from streaming.later import forwarding
from streaming.later.clients import LaterClients
from streaming.later.forwarding import Forwarder
from tests.place import HALF_PARTITIONS, Place, wait_until
from tests.streaming.later.scene import Remembering, ended_by, forwarder_of, halves, moving, transactional, write


def consumer_of(place: Place) -> closing[Consumer]:
    """Of the forwarder's group; uncommitted, since else there is no offset while a transaction is under way."""
    group = {"group.id": place.topics.later, "bootstrap.servers": place.bootstrap_servers}
    return closing(Consumer({**group, "isolation.level": "read_uncommitted", "enable.auto.commit": False}))


def forget(place: Place, *partitions: int) -> None:
    """Kafka forgets offsets of the forwarder's group, as it does after ``offsets.retention.minutes``."""
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        forgotten = [PythonPartition(place.topics.later, number) for number in partitions]
        admin.delete_group_offsets(place.topics.later, forgotten)


def stored(place: Place) -> list[int]:
    """Offsets of the forwarder's group, by partition; negative where there is none."""
    with consumer_of(place) as consumer:
        asked = [TopicPartition(place.topics.later, number) for number in range(HALF_PARTITIONS)]
        return [one.offset for one in consumer.committed(asked, timeout=10)]


def set_by_hand(place: Place, number: int, offset: int) -> None:
    """As ``kafka-consumer-groups.sh --reset-offsets`` does."""
    with consumer_of(place) as consumer:
        consumer.commit(offsets=[TopicPartition(place.topics.later, number, offset)], asynchronous=False)


def test_what_kafka_has_forgotten_is_not_moved_again(place: Place) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one", b"two")
        wait_until(lambda: len(halves(place)) == 2)
    forget(place, 1)
    write(place, b"three")
    stopped = forwarder_of(place, memory)
    stopped.start()
    error = ended_by(stopped)
    assert isinstance(error, JobStoppedError)
    assert f"--group {place.topics.later} --topic {place.topics.later}:1 --reset-offsets" in str(error)
    assert len(halves(place)) == 2
    set_by_hand(place, 1, 2)
    with moving(place, memory):
        wait_until(lambda: halves(place) == [b"one", b"two", b"three"])


def test_where_nothing_comes_the_topics_are_looked_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that was made again after a broker had been restarted librdkafka hears nothing while it waits."""
    looked: list[object] = []

    def look(clients: LaterClients) -> None:
        looked.append(clients)

    monkeypatch.setattr(forwarding, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(LaterClients, "look", look)
    with moving(place, Remembering()):
        wait_until(lambda: len(looked) > 4)


def test_what_kafka_forgets_while_it_runs_is_stored_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, also of partitions where nothing has ever been moved; and before anything is moved, at the start."""
    memory = Remembering()
    write(place, b"one")
    with moving(place, memory):
        wait_until(lambda: len(halves(place)) == 1)
        assert min(stored(place)) >= 0
    monkeypatch.setattr(forwarding, "_RENEWAL_SECONDS", 0.1)
    with moving(place, memory):
        write(place, b"two")
        wait_until(lambda: len(halves(place)) == 2)
        for gone in ([0], [1], [0, 1]):
            forget(place, *gone)
            wait_until(lambda: min(stored(place)) >= 0, what="offsets of all partitions")
    with moving(place, memory):
        write(place, b"three", partition=0)
        wait_until(lambda: sorted(halves(place)) == [b"one", b"three", b"two"])  # type: ignore[type-var]  # none is null


def test_a_partition_that_is_added_is_read_from_its_first_record(place: Place, forwarder: Forwarder) -> None:
    write(place, b"one")
    wait_until(lambda: len(halves(place)) == 1)
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.create_partitions({place.topics.later: NewPartitions(3)})
    with TopicAdministration(place.bootstrap_servers) as administration:
        wait_until(lambda: administration.partitions([place.topics.later])[place.topics.later] == 3)
    write(place, b"two", partition=2)
    write(place, b"three")  # which is when it looks
    wait_until(lambda: sorted(halves(place)) == [b"one", b"three", b"two"])  # type: ignore[type-var]  # none is null


def make_again(place: Place) -> None:
    later = place.topics.later
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_topics([later])
        with TopicAdministration(place.bootstrap_servers) as administration:
            wait_until(lambda: later not in administration.partitions([later]))
            administration.create_one(later, HALF_PARTITIONS)
            administration.wait_for([later])


@pytest.mark.parametrize("running", [True, False])
def test_a_topic_that_was_made_again_is_moved_from_its_first_record(place: Place, *, running: bool) -> None:
    """Also where the new one is as long as the old one at once: its offsets say nothing of it."""
    memory = Remembering()
    first = forwarder_of(place, memory)
    first.start()
    write(place, b"one", b"two")
    wait_until(lambda: len(halves(place)) == 2)
    if not running:
        first.stop()
    make_again(place)
    write(place, b"three", b"four", b"five", b"six")
    second = first if running else forwarder_of(place, memory)
    if not running:
        second.start()
    wait_until(lambda: len(halves(place)) == 6)
    write(place, b"seven")
    wait_until(lambda: halves(place) == [b"one", b"two", b"three", b"four", b"five", b"six", b"seven"])
    second.stop()
    second.raise_if_dead()


def test_a_log_that_ends_before_what_was_moved_stops_the_job(place: Place) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    set_by_hand(place, 1, 9)  # what the brokers of a truncated log would have stored
    stopped = forwarder_of(place, memory)
    stopped.start()
    assert "lost records at the end" in str(ended_by(stopped))


def test_an_operator_may_pass_over_what_is_not_committed_yet(place: Place) -> None:
    """As --to-latest does: to the end of the log, behind what readers of committed records see as its end."""
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    producer = transactional(place, f"{place.topics.prefix}open")
    producer.begin_transaction()
    producer.produce(place.topics.later, b"never", b"key", 1)
    producer.flush(120)
    write(place, b"neither")
    set_by_hand(place, 1, log_end(place, 1))
    with moving(place, memory):
        write(place, b"two")
        producer.commit_transaction(20)
        wait_until(lambda: halves(place) == [b"one", b"two"])


def log_end(place: Place, number: int) -> int:
    with consumer_of(place) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(place.topics.later, number), timeout=10)
        return int(end)


def test_what_retention_removes_is_passed_over(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    write(place, b"two")
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_records({PythonPartition(place.topics.later, 1): -1})
    write(place, b"three")
    with caplog.at_level(logging.ERROR), moving(place, memory):
        wait_until(lambda: halves(place) == [b"one", b"three"])
    assert "retries among them are lost" in caplog.text
