"""Consumer groups in ``checkback groups``, on a real Kafka; producer groups are in ``test_status.py``."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPlace
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import TopicAuthorizationFailedError
from rich.console import Console
from typer.testing import CliRunner, Result

from checkback.consumer.listener import ReceivedMessage
from checkback.consumer.listener import TopicPartition as Place
from checkback.consumer.offsets.metadata import LastingFacts, Stored, encode
from checkback.consumer.resetting.all_groups import AllGroups, was_delivered
from checkback.consumer.resetting.group_offsets import GroupOffsets
from checkback.consumer.retries.dead_letter_topic import LetterCount
from checkback.consumer.retries.dead_letters import LetterPlace, mark_of
from checkback.consumer.retry import OwnTopics, SentBack, dead_letter
from checkback.exceptions import KafkaUnreachableError
from checkback.operations.topics import TopicAdministration
from checkback_cli import app
from checkback_cli.groups.consumer_groups import ConsumerRow, TopicLag, as_object, cells, lag_of, named_in, tell_unknown
from status_page.facts import GroupFacts
from tests.checkback_cli.facts_made import bodies, page
from tests.needs_no_repair import NeedsNoRepair
from tests.place import Place as Topics
from tests.place import find_by_environment, wait_until

PARTITIONS = 4


class Groups:
    """Consumer groups of one test, none of which has another test's name."""

    def __init__(self, place: Topics) -> None:
        self.place = place
        self.prefix = place.topics.prefix.strip(".")
        self.own = OwnTopics.of(place.topics, self.name("points"))
        self._producer = place.producer()

    def close(self) -> None:
        self._producer.close()

    def name(self, short: str) -> str:
        return f"{short}-{self.prefix}"

    def make(self, *topics: str) -> None:
        with TopicAdministration(self.place.bootstrap_servers) as administration:
            for topic in topics:
                administration.create_one(topic, 1)
            wait_until(lambda: len(administration.partitions(topics)) == len(topics))

    def write(self, topic: str, count: int, *headers: str, partition: int = 0) -> None:
        for _ in range(count):
            self._producer.send(topic, b"v", headers=[(name, b"1") for name in headers], partition=partition)
        self._producer.flush(120)

    def letter(self, name: str) -> str:
        message = ReceivedMessage(self.place.real_topic, 0, 41, None, b"v", [("cb-id", name.encode())], 0, 16)
        return self.put(dead_letter(message, self.own, "tried 17 times in vain"))

    def put(self, record: SentBack) -> str:
        sent = self._producer.send(record.topic, record.value, record.key, headers=list(record.headers), partition=0)
        return f"0:{sent.get(120).offset}"

    def store(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Offsets of a group in which nobody is."""
        with GroupOffsets(self.place.bootstrap_servers, group) as asked:
            assert asked.set({Place(topic, partition): offset for partition, offset in offsets.items()})

    def store_as_consumers_do(self, group: str, place: Place, stored: Stored) -> None:
        """Likewise, with what lies beside the offset."""
        with closing(Consumer({"bootstrap.servers": self.place.bootstrap_servers, "group.id": group})) as consumer:
            consumer.commit(offsets=[KafkaPlace(*place, stored.offset, stored.metadata)], asynchronous=False)

    def invoke(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["groups", *arguments])

    def rows(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Consumer groups of this test as programs get them, by their short names."""
        done = self.invoke("--kind", "consumer", "--json", *arguments)
        assert done.exit_code == 0, (done.output, done.exception)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        suffix = f"-{self.prefix}"
        return {row["group"].removesuffix(suffix): row for row in rows if row["group"].endswith(suffix)}

    def wait_for(self, group: str, **fields: Any) -> dict[str, Any]:
        """Its row, when these fields are so: Kafka knows of a member, or an offset, a moment later."""
        found: dict[str, Any] = {}

        def holds() -> bool:
            found.update(self.rows().get(group, {}))
            return found.items() >= fields.items()

        wait_until(holds, f"{group} with {fields}")
        return found


@pytest.fixture
def groups(place: Topics, monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    find_by_environment(place, monkeypatch, columns=200)
    made = Groups(place)
    yield made
    made.close()


def test_a_group_of_ours_with_its_retries_and_dead_letters(groups: Groups) -> None:
    group, topic = groups.own.group, groups.place.real_topic
    groups.make(groups.own.retry, groups.own.dead)
    for partition in range(PARTITIONS):
        groups.write(topic, 5, "cb-id", partition=partition)
    groups.write(groups.own.retry, 3, "cb-id")
    groups.store(group, topic, {0: 5, 1: 3, 2: 0})
    groups.store(group, groups.own.retry, {0: 1})
    groups.store_as_consumers_do(group, Place(topic, 1), encode(3, (), kept=LastingFacts(40)))
    groups.store_as_consumers_do(group, Place(topic, 0), encode(5, (), kept=LastingFacts(2)))
    letters = [groups.letter(name) for name in ("one", "two", "three")]
    groups.put(mark_of(LetterPlace.parse(letters[1]), groups.own, groups.own.retry, "ada"))
    expected = {
        "kind": "consumer",
        "group": group,
        "topics": [{"topic": topic, "partitions": PARTITIONS, "lag": 7, "without_offset": 1}],
        "members": 0,
        "lag": 7,
        "without_offset": 1,
        "retry_lag": 2,
        "delayed": None,
        "dead_letters": 2,
        "dead_letters_at_most": 4,
        "skipped": 42,
    }
    assert groups.rows()["points"] == expected
    assert groups.rows("--group", "nobody") == {}
    done = groups.invoke("--group", group)
    assert done.exit_code == 0, (done.output, done.exception)
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        [group, topic, "0", "7", "1", "2 now, ? in the job", "2", "42", "consumer"]
    ]
    facts = (GroupFacts(group, delayed=12), GroupFacts("other", delayed=1))
    with page(bodies(topic_prefix=groups.place.topics.prefix, groups=facts)) as url:
        assert groups.rows("--job", url)["points"] == {**expected, "delayed": 12}
        kinds = [line.split("\t")[-1] for line in groups.invoke("--job", url, "--group", group).stdout.splitlines()]
    assert kinds == ["producer", "consumer"]


def test_others_are_shown_when_they_read_what_checkback_delivers(groups: Groups) -> None:
    delivered, elsewhere, topics = groups.place.real_topic, groups.name("elsewhere"), groups.place.topics
    groups.make(elsewhere, groups.own.retry)
    groups.write(delivered, 3, "trace", "cb-id", partition=1)
    groups.write(elsewhere, 3, "trace")
    groups.write(topics.half, 1, "cb-id", "cb-group", "cb-topic")
    for name in ("mail", "both"):
        groups.store(groups.name(name), delivered, {1: 1})
    for name in ("nothing-of-ours", "both"):
        groups.store(groups.name(name), elsewhere, {0: 0})
    groups.store(groups.name("snoops"), topics.half, {0: 0})
    for name in (f"{topics.prefix}job", topics.later, f"{topics.prefix}checkers", f"checkback-lane-{groups.prefix}"):
        groups.store(name, delivered, {1: 1})
    shown = groups.rows()
    assert sorted(shown) == ["both", "mail", "points"]
    assert shown["both"] == {**shown["mail"], "group": groups.name("both")}
    assert shown["mail"]["topics"] == [
        {"topic": delivered, "partitions": PARTITIONS, "lag": 2, "without_offset": PARTITIONS - 1}
    ]
    assert {shown["mail"][name] for name in ("retry_lag", "delayed", "dead_letters")} == {None}
    # it has a retry topic, and Kafka has forgotten the rest
    points = shown["points"]
    assert (points["members"], points["topics"], points["lag"], points["retry_lag"]) == (0, [], None, None)


def test_who_is_there_and_what_was_never_stored(groups: Groups) -> None:
    topic, servers = groups.place.real_topic, groups.place.bootstrap_servers
    groups.write(topic, 2, "cb-id")
    older = KafkaConsumer(topic, bootstrap_servers=servers, group_id=groups.name("older"), enable_auto_commit=False)
    newer = Consumer(
        {"bootstrap.servers": servers, "group.id": groups.name("newer"), "group.protocol": "consumer"}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    with closing(older), closing(newer):
        wait_until(lambda: bool(older.poll(timeout_ms=1000) or older.assignment()), "the older protocol's join")
        row = groups.wait_for("older", members=1)
        assert (row["lag"], row["without_offset"]) == (None, PARTITIONS)
        assert [one["topic"] for one in row["topics"]] == [topic]
        newer.subscribe([topic])
        wait_until(lambda: newer.poll(0.1) is not None, "the newer protocol's first message")
        newer.commit(asynchronous=False)
        assert groups.wait_for("newer", lag=1)["members"] is None
    groups.wait_for("newer", members=0)


def test_lag_ends_where_an_open_transaction_begins(groups: Groups) -> None:
    topic = groups.place.real_topic
    groups.write(topic, 2, "cb-id")
    groups.store(groups.name("mail"), topic, {0: 1})
    writer = Producer(
        {"bootstrap.servers": groups.place.bootstrap_servers, "transactional.id": groups.name("open"), "linger.ms": 0}
    )
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(topic, b"v", partition=0, headers=[("cb-id", b"1")])
    assert writer.flush(60) == 0
    assert groups.rows()["mail"]["lag"] == 1
    writer.commit_transaction(60)
    groups.wait_for("mail", lag=3)  # the transaction's end has an offset, too


def test_without_kafka_the_job_is_shown_and_consumer_groups_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr("checkback.kafka.kafka_python.CONNECT_MS", 500)
    with page(bodies()) as url:
        done = CliRunner().invoke(app, ["groups", "--job", url])
        alone = CliRunner().invoke(app, ["groups", "--job", url, "--kind", "producer"])
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["orders", "quiet"]
    assert isinstance(done.exception, KafkaUnreachableError)
    assert done.exception.retriable
    assert (alone.exit_code, alone.stdout) == (0, done.stdout)


def test_on_a_terminal_there_are_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "160")
    rows = [ConsumerRow("points", (TopicLag("shop.orders", 4, 7, 1),), 3, 2, 12, LetterCount(None, 20_000), 4_711)]
    monkeypatch.setattr("checkback_cli.groups.consumer_groups.read_consumers", lambda *_: (rows, frozenset({"secret"})))
    with page(bodies()) as url:
        said = CliRunner().invoke(app, ["groups", "--job", url])
    assert said.exit_code == 0, (said.output, said.exception)
    assert said.stdout.index("Producer groups") < said.stdout.index("quiet") < said.stdout.index("Consumer groups")
    assert "kind" not in said.stdout
    table = said.stdout.split("Consumer groups")[1]
    for cell in ("shop.orders", "no offset", "2 now, 12 in the job", "at most 20000", "skipped", "4711"):
        assert cell in table
    assert "Could not be looked at: secret." in said.stderr
    rows.clear()
    with page(bodies()) as url:
        assert "Consumer groups: none." in CliRunner().invoke(app, ["groups", "--job", url]).stdout


def test_what_is_not_known_is_no_zero(capsys: pytest.CaptureFixture[str]) -> None:
    row = ConsumerRow("mail", tuple(TopicLag(f"t{number}", 1, None, 1) for number in range(7)), None)
    assert cells(row) == ("mail", "t0, t1, t2, t3, t4 and 2 more", "?", "-", "7", "-", "-", "0")
    assert (as_object(row)["lag"], as_object(row)["members"]) == (None, None)
    assert cells(ConsumerRow("gone", (), 0, None, 3))[5] == "? now, 3 in the job"
    tell_unknown(())
    assert capsys.readouterr() == ("", "")


def test_lag_is_that_of_the_partitions_with_an_offset() -> None:
    ends = {Place("t", 0): 10, Place("t", 1): 10, Place("t", 2): 10, Place("u", 0): 99}
    assert lag_of("t", {Place("t", 0): 4, Place("t", 1): 12}, ends) == TopicLag("t", 3, 6, 1)
    assert lag_of("t", {}, ends) == TopicLag("t", 3, None, 3)
    assert lag_of("missing", {}, ends) == TopicLag("missing", 0, None, 0)
    assert cells(ConsumerRow("points", (TopicLag("missing", 0, None, 0),), 1))[1] == "missing (no such topic)"
    assert named_in(["cb.dlq.a", "cb.dlq.", "cb.half"], "cb.dlq.") == {"a"}


@pytest.mark.parametrize(
    ("names", "delivered"),
    [
        (["trace", "cb-id"], True),
        (["cb-id", "checkback-tries"], True),
        (["trace"], False),
        (["cb-id", "cb-group"], False),
        ([], False),
    ],
)
def test_what_was_delivered_has_an_id_and_nothing_else_of_ours(names: list[str], delivered: object) -> None:
    assert was_delivered([(name, b"1") for name in names]) is delivered


class Refusing(NeedsNoRepair):
    """A consumer of two topics with a message each, one of which it may not read."""

    def __init__(self) -> None:
        self._assigned: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._assigned = set(partitions)

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def pause(self, *_: TopicPartition) -> None:
        pass

    def poll(self, timeout_ms: int, max_records: int | None) -> dict[TopicPartition, list[Any]]:
        if any(one.topic == "secret" for one in self._assigned):
            raise TopicAuthorizationFailedError({"secret"})
        self._positions.update(dict.fromkeys(self._assigned, 1))
        return {one: [SimpleNamespace(headers=[("cb-id", b"1")])] for one in self._assigned}


def test_a_topic_that_may_not_be_read_is_named_and_the_others_are_looked_at() -> None:
    asked = object.__new__(AllGroups)
    asked.consumer = Refusing()
    ends = {Place("secret", 0): 1, Place("open", 0): 1, Place("empty", 0): 0}
    assert asked.delivered_to(ends, 30) == (frozenset({"open"}), frozenset({"secret"}))
