"""Topics that take nothing for a while, on two real brokers: their messages are held, all others are delivered."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.partitioner.default import murmur2

from checkback.kafka.librdkafka.groups import committed
from checkback.local import LocalKafka
from state import OutcomeKind
from streaming.batch.batch import Batch, PartitionReport
from streaming.brokers.client import SinkSettings, producer_settings
from streaming.brokers.retrying import retrying
from streaming.checkpoint.progress import progress_group, transactional_id
from streaming.kafka_sink.partition_writer import write_partition
from streaming.ownership.fence import fence, read_progress
from tests.place import Place, wait_until
from tests.streaming.outcomes import outcome, rows

AT_ONCE_SECONDS = 30.0
"""Far less than the two minutes after which a message times out."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """A broker with the controller, and one that joined it and can be stopped."""
    folder = tmp_path_factory.mktemp("brokers")
    with LocalKafka(folder / "1", heap_megabytes=256, properties={"broker.session.timeout.ms": "3000"}) as first:
        # Kafka's own topics are made when they are used first: now, on the broker that stays
        client = {"bootstrap.servers": first.bootstrap_servers}
        Producer({**client, "transactional.id": "first"}).init_transactions(30)
        consumer = Consumer({**client, "group.id": "first"})
        retrying()(committed, consumer, [TopicPartition("none", 0)])
        consumer.close()
        with LocalKafka(folder / "2", heap_megabytes=256, joins=first) as second:
            yield first, second


@dataclass
class Two:
    """A place on two brokers."""

    place: Place
    second: LocalKafka
    query_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    batches: int = 0

    def topic(self, name: str, brokers: list[list[int]], **configuration: str) -> str:
        """A topic with its replicas on these brokers, a list for each partition."""
        full = f"{self.place.topics.prefix}{name}"
        configs = {key.replace("_", "."): value for key, value in configuration.items()}
        made = [NewTopic(full, -1, -1, dict(enumerate(brokers)), topic_configs=configs)]
        self.admin(lambda admin: admin.create_topics(made))
        self._wait_until_known(full, len(brokers))
        return full

    def admin(self, call: Callable[[KafkaAdminClient], Any]) -> Any:
        with closing(KafkaAdminClient(bootstrap_servers=self.place.bootstrap_servers)) as admin:
            return call(admin)

    def create_topics(self) -> None:
        """Ours and the real one, on the broker that stays."""
        topics = self.place.topics
        counts = dict.fromkeys((*topics.all(), self.place.real_topic), 1) | dict.fromkeys((topics.half, topics.op), 2)
        made = [NewTopic(name, -1, -1, {number: [1] for number in range(count)}) for name, count in counts.items()]
        self.admin(lambda admin: admin.create_topics(made))
        for name, count in counts.items():
            self._wait_until_known(name, count)

    def leaders(self, topic: str) -> list[int]:
        """Of each partition; -1 for none."""
        found = self._partitions(topic)
        return [found[number].leader for number in sorted(found)]

    def in_sync(self, topic: str) -> int:
        """Replicas in sync of the first partition; none of a topic that this broker does not know yet."""
        found = self._partitions(topic)
        return len(found[0].isrs) if found else 0

    def _wait_until_known(self, topic: str, partitions: int) -> None:
        """Wait until each running broker knows the topic, because the sink may ask any of them.

        A client asks any broker of the cluster, not only its bootstrap server. The answer has the broker's id.
        """
        missing = {1, 2} if self.second.running else {1}

        def all_know() -> bool:
            answer = self._answer(topic)
            if len(answer.topics[topic].partitions) == partitions:
                missing.discard(answer.orig_broker_id)
            return not missing

        wait_until(all_know, f"{topic} on each broker")

    def _partitions(self, topic: str) -> Any:
        return self._answer(topic).topics[topic].partitions

    def _answer(self, topic: str) -> Any:
        client = AdminClient({"bootstrap.servers": self.place.bootstrap_servers})
        return client.list_topics(topic, 10)

    def write(self, *outcomes: dict[str, Any]) -> PartitionReport:
        """One batch; what was delivered from a half message that the sink wrote is for the test to give again."""
        settings = SinkSettings(self.place.bootstrap_servers, self.place.topics, 600_000)
        batch = Batch(self.query_id, self.batches, "hash", every_partition_writes=False, time_ms=1_000_000)
        self.batches += 1
        return write_partition(settings, batch, 0, rows(*outcomes))

    def values(self, topic: str) -> list[bytes]:
        return sorted(record.value for record in self.place.read(topic))

    def held(self) -> dict[bytes, str]:
        """Value to reason."""
        found = {record.value: dict(record.headers) for record in self.place.read(self.place.topics.half)}
        assert all(one["cb-action"] == b"commit" for one in found.values())
        return {value: one["cb-reason"].decode() for value, one in found.items()}


@pytest.fixture
def two(pair: tuple[LocalKafka, LocalKafka], place: Place) -> Iterator[Two]:
    first, second = pair
    if not second.running:
        second.start()
    here = place.on(first.bootstrap_servers)
    made = Two(here, second)
    made.create_topics()
    yield made
    if not second.running:
        second.start()


def test_a_partition_without_a_leader_holds_its_messages_and_nobody_elses(two: Two) -> None:
    far = two.topic("far", [[2], [1]])
    two.write(outcome(far, partition=0, value=b"before"), outcome(two.place.real_topic, value=b"before"))
    two.second.stop()
    wait_until(lambda: two.leaders(far)[0] == -1, "the loss of the leader")
    began = monotonic()
    batch = [
        outcome(far, transaction_id="1", partition=0, value=b"held"),
        outcome(far, transaction_id="2", partition=1, value=b"near"),
        outcome(two.place.real_topic, transaction_id="3", value=b"others"),
        outcome("", kind=OutcomeKind.COUNT, reason="committed", half_offset=3, attempt=-1),
    ]
    report = two.write(*batch)
    assert monotonic() - began < AT_ONCE_SECONDS
    assert json.loads(report.counts) == {"committed": 3, "held": 1}
    assert two.values(two.place.real_topic) == [b"before", b"others"]
    assert two.held() == {b"held": f"committed, but not deliverable to {far} partition 0: that partition has no leader"}
    two.batches -= 1
    assert two.write(*batch).skipped, "run again, it is in, whatever the transactional id is called now"
    began = monotonic()
    two.write(
        *(outcome(far, value=b"%d" % number) for number in range(9)),
        *(outcome(far, key=key, value=b"keyed " + key) for key in (b"a", b"b", b"c", b"d")),
    )
    assert monotonic() - began < 5, "the next batch knows, and does not wait"
    keyed = {key: (murmur2(key) & 0x7FFFFFFF) % 2 for key in (b"a", b"b", b"c", b"d")}
    assert set(keyed.values()) == {0, 1}
    near = [b"near", *(b"%d" % number for number in range(9)), *(b"keyed " + key for key in keyed if keyed[key])]
    assert two.held().keys() == {b"held", *(b"keyed " + key for key in keyed if not keyed[key])}
    two.second.start()
    wait_until(lambda: two.leaders(far)[0] == 2, "the leader")
    two.write(outcome(far, partition=0, value=b"after"))
    assert two.values(far) == sorted([*near, b"before", b"after"]), "a partition that is well again is used at once"


def test_too_few_replicas_in_sync_hold_messages_until_there_are_enough(two: Two) -> None:
    safe = two.topic("safe", [[1, 2]], min_insync_replicas="2")
    # a broker that another test has just started may not follow yet: the message would be held, as it should
    wait_until(lambda: two.in_sync(safe) == 2, what="both replicas in sync")
    two.write(outcome(safe, value=b"before"))
    # the transaction's marker is written after it has been committed, and has to be on both brokers to be read
    wait_until(lambda: two.values(safe) == [b"before"], what="what was delivered can be read")
    two.second.stop()
    began = monotonic()
    two.write(outcome(safe, value=b"held"), outcome(two.place.real_topic, value=b"others"))
    assert monotonic() - began < AT_ONCE_SECONDS
    assert two.values(two.place.real_topic) == [b"others"]
    assert two.values(safe) == [b"before"]
    assert two.held()[b"held"].endswith("1 of its replicas in sync, min.insync.replicas is 2")
    two.second.start()
    wait_until(lambda: two.in_sync(safe) == 2, what="the replicas in sync again")
    two.write(outcome(safe, value=b"after"))
    assert two.values(safe) == [b"after", b"before"]


def test_a_broker_that_is_away_for_seconds_holds_nothing(two: Two) -> None:
    far = two.topic("far", [[2]])
    two.second.stop()
    wait_until(lambda: two.leaders(far)[0] == -1, "the loss of the leader")
    starting = Thread(target=two.second.start)
    starting.start()
    two.write(outcome(far, value=b"waited"), outcome(two.place.real_topic, value=b"others"))
    starting.join()
    delivered, held = two.values(far), two.held()
    # how long a start takes is for the machine to say
    assert sorted([*delivered, *held]) == [b"waited"]
    assert two.values(two.place.real_topic) == [b"others"]


def test_a_start_fences_also_what_kafka_cannot_end(two: Two) -> None:
    far = two.topic("far", [[2]])
    settings = SinkSettings(two.place.bootstrap_servers, two.place.topics, 600_000)
    producer = Producer(settings.client(**producer_settings(transactional_id(two.query_id, 0), 600_000)))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(far, b"of a job that was killed")
    group = Consumer(settings.client(**{"group.id": progress_group(two.query_id)})).consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(two.place.topics.progress, 0, 1, "hash")], group, 30)
    producer.flush(120)
    two.second.stop()
    fence(settings, two.query_id, 1)
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    assert [one.offset for one in read_progress(settings, two.query_id, 1, settled=True)] == [None]
    two.write(outcome(two.place.real_topic, value=b"others"))
    assert two.values(two.place.real_topic) == [b"others"]
