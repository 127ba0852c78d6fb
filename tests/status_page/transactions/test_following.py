"""The page's lists, and operators' ops, on a real Kafka that is stopped and comes back."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from checkback.exceptions import KafkaUnreachableError, OperatorError
from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.local import LocalKafka
from checkback.operations.audit import audit_lines
from checkback.operations.in_doubt import newest
from checkback.operations.operator_ops import OperatorOps
from checkback.operations.parked import ParkedMessages
from checkback.wire.protocol import Action, HalfPosition, Topics, op_headers
from conf import Settings
from status_page.transactions import lookup as transactions
from status_page.transactions.index import Index
from status_page.transactions.lookup import Transactions
from status_page.transactions.schema import PARKED, STATUS
from tests.place import wait_until
from tests.status_page.transactions.scene import NONSENSE, Record, parked, row


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker of our own: others would miss it."""
    with LocalKafka(tmp_path_factory.mktemp("kafka") / "data", heap_megabytes=256) as started:
        yield started


class Place:
    """Topics of one test, and what follows them."""

    def __init__(self, kafka: LocalKafka, prefix: str) -> None:
        self.kafka = kafka
        self.topics = Topics(prefix)
        given = {"bootstrap_servers": kafka.bootstrap_servers, "topic_prefix": prefix}
        self.transactions = Transactions(Settings.model_validate({"kafka": given}))

    @property
    def index(self) -> Index:
        return self.transactions.index

    def make(self, *names: str) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic(name, 2 if name == self.topics.op else 1, 1) for name in names])

    def delete(self, name: str) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)) as admin:
            admin.delete_topics([name])

    def write(self, topic: str, *records: Record) -> None:
        with closing(KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers, acks="all")) as producer:
            for record in records:
                producer.send(topic, record.value, record.key, headers=list(record.headers))
            producer.flush()

    def holds(self, doubtful: int, waiting: int = 0, lacking: str = "") -> bool:
        found = (self.index.total(STATUS.name).number, self.index.total(PARKED.name).number)
        standing = self.transactions.standing()
        here = standing.complete is not bool(lacking) and lacking in standing.problem
        return found == (doubtful, waiting) and here and standing.away_seconds is None


@pytest.fixture
def place(kafka: LocalKafka, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    # what takes half a minute in all otherwise
    monkeypatch.setattr("status_page.transactions.reading._LOOK_SECONDS", 1.0)
    monkeypatch.setattr("status_page.transactions.reading._ANSWER_MS", 1_500)
    monkeypatch.setitem(transactions._FETCH, "metadata_max_age_ms", 500)
    monkeypatch.setitem(transactions._FETCH, "fetch_max_wait_ms", 300)
    made = Place(kafka, f"{request.node.name[:40]}.")
    yield made
    made.transactions.stop()


def test_lists_follow_the_topics_through_all_that_happens_to_them(place: Place) -> None:
    status, kept = place.topics.status, place.topics.parked
    place.transactions.start()
    wait_until(lambda: "has no topic" in place.transactions.standing().problem)
    place.make(status, kept)
    place.write(status, *NONSENSE, *(row(f"0:{number}") for number in range(2_000)), Record(b"0:7", None))
    place.write(kept, parked("0:1"), parked("0:2"), parked("0:1", ended=True))
    wait_until(lambda: place.holds(1_999, 1))
    with closing(reading_consumer(place.kafka.bootstrap_servers)) as consumer:
        read = newest(records_to_end(consumer, status))
    assert {one.half: one for one in place.index.in_doubt(limit=500)}.items() <= read.items()
    assert len(read) == 1_999

    place.delete(status)
    wait_until(lambda: status in place.transactions.standing().problem)
    place.make(status)
    place.write(status, row("1:1"), row("1:2"))
    wait_until(lambda: place.holds(2, 1, "was deleted and made again"))

    place.kafka.stop()
    wait_until(lambda: place.transactions.standing().away_seconds is not None)
    assert place.index.total(STATUS.name).number == 2
    place.kafka.start()
    place.write(status, row("1:3"))
    wait_until(lambda: place.holds(3, 1, "was deleted and made again"))

    began = time.monotonic()
    place.transactions.stop()
    assert time.monotonic() - began < 3
    assert place.index.in_doubt() == []
    place.transactions.start()
    wait_until(lambda: place.holds(3, 1, "was deleted and made again"))


def test_it_costs_next_to_nothing_while_nothing_comes(place: Place) -> None:
    place.make(place.topics.status, place.topics.parked)
    place.transactions.start()
    wait_until(lambda: place.holds(0))

    def spent() -> float:
        before, began = time.process_time(), time.monotonic()
        time.sleep(1)
        return (time.process_time() - before) / (time.monotonic() - began)

    # 2 thousandths of a core, on a quiet machine; other threads of this process may spend more for a while
    wait_until(lambda: spent() < 0.05)


def test_operators_ops_are_written_to_the_halfs_partition(place: Place) -> None:
    place.make(place.topics.op, place.topics.parked, place.topics.audit)
    rows = [(f"tx-{number}", "shop", HalfPosition(number % 2, number)) for number in range(2_500)]
    with OperatorOps(place.kafka.bootstrap_servers, place.topics) as ops:
        assert ops.write(rows, Action.ROLLBACK, "why\u20ac") == 2_500
        assert ops.write([], Action.ROLLBACK) == 0
        with pytest.raises(OperatorError, match="The commit of lost did not reach Kafka; do it again"):
            ops.write([("lost", "shop", HalfPosition(7, 1))], Action.COMMIT)
    place.write(place.topics.parked, parked("1:5"))
    with ParkedMessages(place.kafka.bootstrap_servers, place.topics) as messages:
        messages.end(messages.read(), Action.RESUME, json.dumps({"who": "Ada"}))
    with closing(reading_consumer(place.kafka.bootstrap_servers)) as consumer:
        written = list(records_to_end(consumer, place.topics.op))
        told = [line.record for line in audit_lines(consumer, place.topics)]
    assert [(one.what, one.number, len(one.halves)) for one in told] == [
        *[("rollback", 1_000, 1_000)] * 2,
        *[("rollback", 500, 500), ("commit", 1, 1), ("resume", 1, 1)],
    ]
    assert (told[0].halves[:2], told[0].why, told[-1].who, told[-1].group) == (("0:0", "1:1"), "why\u20ac", "", "g")
    assert len(written) == 2_501
    found = {HalfPosition.parse(dict(one.headers)["cb-half"].decode()): one for one in written}
    for name, group, half in rows[:5]:
        assert found[half].partition == half.partition
        if half != (1, 5):
            assert found[half].headers == op_headers(name, group, half, Action.ROLLBACK, "operator")  # type: ignore[arg-type]  # a word
            assert found[half].value == "why\u20ac".encode()
    assert dict(found[HalfPosition(1, 5)].headers)["cb-action"] == b"resume"
    assert found[HalfPosition(1, 5)].value == b'{"who": "Ada"}'


def test_no_kafka_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(KafkaUnreachableError), OperatorOps("127.0.0.1:1", options={"bootstrap_timeout_ms": 500}):
        pass
