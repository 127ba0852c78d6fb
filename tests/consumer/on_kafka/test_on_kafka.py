"""Consumers on a real Kafka: shared topics, processes that are killed, transactions."""

import json
import logging
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from typer.testing import CliRunner

from checkback.consumer import (
    ConsumeResult,
    ConsumerSettings,
    Mode,
    PushConsumer,
    ReceivedMessage,
    StartAt,
    TopicPartition,
)
from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.offsets.metadata import Stored, decode
from checkback.consumer.retry import SentBack
from checkback_cli import app
from tests.consumer.group import ends_of, group_of, member, options, stored_by, without_topic, write
from tests.consumer.on_kafka.scene import LATER, SUCCESS, numbered, started
from tests.consumer.waiting import Recording, soon
from tests.place import Place as Topics


def test_two_members_share_a_topic_and_nothing_finished_is_done_again(place: Topics) -> None:
    """The second comes in the midst of things, the first leaves in the midst of things; each 100th message fails."""
    slow = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.value == b"slow":
            slow.set()
            threading.Event().wait(0.5)
        return LATER if (message.value or b"").endswith(b"50") else SUCCESS

    first, second = Recording(says), Recording(says)
    write(place, *numbered(0, 1_000))
    one, two = member(place, first), member(place, second)
    with one, two:
        write(place, *numbered(1_000, 1_000))
        soon(lambda: any(part.partition.topic == place.real_topic for part in two.figures().partitions))
        soon(lambda: len(first.counts) + len(second.counts) >= 2_000)
        write(place, *numbered(2_000, 1_000), *[b"slow"] * 4)
        soon(slow.is_set)
        one.close()
        write(place, *numbered(3_000, 100))
        soon(lambda: len({*list(first.counts), *list(second.counts)}) == 3_101)  # they grow meanwhile
        # what fails now and then is sent back a moment after those behind it are done
        soon(lambda: {part: stored.offset for part, stored in stored_by(place).items()} == ends_of(place))
    assert first.messages
    assert second.messages
    seen = first.counts + second.counts
    failing = {value for value in seen if (value or b"").endswith(b"50")}
    assert {value: count for value, count in seen.items() if count > 1 and value not in {*failing, b"slow"}} == {}
    assert seen[b"slow"] == 4
    assert {part: stored.offset for part, stored in stored_by(place).items()} == ends_of(place)
    sent_back = [record.value for record in place.read(place.topics.later)]
    assert sorted(sent_back) == sorted(value or b"" for value in failing)  # each once


def test_nulls_are_sent_back_as_they_are(place: Topics) -> None:
    sender = Clients().sender(Connection(place.bootstrap_servers, "", "test"), f"{place.real_topic}.nulls")
    headers = [("none", None), ("empty", b"")]
    sender.send([SentBack(place.real_topic, key, None, headers, 0) for key in (None, b"k")], {}, None)
    sender.close()
    read = place.read(place.real_topic)
    assert [(one.key, one.value) for one in read] == [(None, None), (b"k", None)]
    assert [one.headers for one in read] == [headers] * 2


def test_who_is_killed_repeats_only_what_was_unfinished(place: Topics) -> None:
    values = numbered(0, 40)
    write(place, b"hang", *values)
    with started(place) as killed:
        soon(lambda: sum(stored.offset + len_of(stored) for stored in stored_by(place).values()) == 41)
        killed.kill()
        said = killed.communicate()[0].split(b"\n")
    assert sorted(line for line in said if line.startswith(b"done")) == [b"done " + value for value in values]
    stored = stored_by(place)
    assert stored[TopicPartition(place.real_topic, 0)].offset == 0
    seen = Recording()
    with member(place, seen, name="one"):
        soon(lambda: seen.values)
        soon(lambda: stored_by(place)[TopicPartition(place.real_topic, 0)].offset == 11)
    assert seen.values == [b"hang"]


def len_of(stored: Stored) -> int:
    return sum(len(one) for one in decode(stored).done) + (1 if decode(stored).done else 0)


def test_options_of_the_consumer_that_no_transaction_may_have_hold_nothing_up(place: Topics) -> None:
    write(place, b"bad")
    points = PushConsumer(
        *(place.bootstrap_servers, group_of(place.topics), lambda _: LATER, [place.real_topic]),
        settings=ConsumerSettings(start_at=StartAt.FIRST, max_reconsume_times=0, hear_resets=False),
        topics=place.topics,
        kafka_options=options(socket_timeout_ms=30_000, acks=1, enable_idempotence=False),
    )
    with points:
        soon(lambda: points.figures().all.dead == 1)


def test_an_offset_that_retention_has_taken_goes_on_at_the_first_there_is(
    place: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    with member(place, Recording()) as points:
        soon(lambda: len(points.figures().partitions) == 5)
    write(place, *numbered(0, 40))
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.delete_records({KafkaPartition(place.real_topic, 1): 4})
    admin.close()
    seen = Recording()
    with member(place, seen):
        soon(lambda: len(seen.values) == 36)
        soon(lambda: stored_by(place)[TopicPartition(place.real_topic, 1)].offset == 10)
    assert "offset 0 is gone: retention has deleted 4 offsets unread" in caplog.text


def test_what_is_written_to_added_partitions_while_nobody_runs_is_read(place: Topics) -> None:
    seen = Recording()
    with member(place, seen, start_at=StartAt.LAST):
        soon(lambda: len(stored_by(place)) == 4)
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.create_partitions({place.real_topic: 6})
    admin.close()
    with place.producer() as producer:
        producer.send(place.real_topic, b"new", partition=5).get(120)
    with member(place, seen, start_at=StartAt.LAST):
        soon(lambda: seen.values)
    assert seen.values == [b"new"]


def test_broadcasting_gives_all_to_each_and_goes_on_where_its_file_says(
    place: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def one(name: str, listener: Recording) -> PushConsumer:
        settings = ConsumerSettings(
            mode=Mode.BROADCASTING, start_at=StartAt.FIRST, store_interval=0.2, offset_file=tmp_path / name
        )
        return PushConsumer(place.bootstrap_servers, "screens", listener, place.real_topic, settings=settings)

    first, second = Recording(lambda message, _: LATER if message.value == b"00003" else SUCCESS), Recording()
    write(place, *numbered(0, 8))
    with one("first", first) as left, one("second", second):
        soon(lambda: len(first.counts) == len(second.counts) == 8)
        soon(lambda: left.figures().all.given_up == 1)
    write(place, *numbered(8, 8))
    with one("first", first):
        soon(lambda: len(first.counts) == 16)
    assert max(first.counts.values()) == max(second.counts.values()) == 1
    assert len(second.counts) == 8
    assert "Broadcasting has no retries: 00003 is dropped" in caplog.text
    whole = (tmp_path / "first").read_bytes()
    (tmp_path / "first").write_bytes(whole[: len(whole) // 2])
    write(place, *numbered(16, 8))
    with one("first", first):
        soon(lambda: len(first.counts) == 24)
    assert "messages since are given again" in caplog.text


def test_where_all_is_read_there_is_no_lag_although_a_transaction_has_ended_there(place: Topics) -> None:
    """One that was committed, and one of which nothing is left: neither end is a message."""
    producer = KafkaProducer(bootstrap_servers=place.bootstrap_servers, transactional_id=f"{place.topics.prefix}writer")
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send(place.real_topic, b"one", partition=0).get(120)
        end()
    producer.close()
    assert ends_of(place)[TopicPartition(place.real_topic, 0)] == 4
    seen = Recording()
    with member(place, seen) as points:
        soon(
            lambda: (
                without_topic(stored_by(place).get(TopicPartition(place.real_topic, 0))) == Stored(4, "cb1;4;1;0;0;;")
            )
        )
        soon(lambda: {one.lag for one in points.figures().partitions} == {0})
    assert seen.values == [b"one"]
    assert without_topic(stored_by(place)[TopicPartition(place.real_topic, 0)]) == Stored(4)


def test_what_is_stored_beside_an_offset_is_read_as_it_was(place: Topics) -> None:
    """Of many lengths: confluent-kafka reads on in its memory where there is no zero byte at the end."""
    connection = Connection(place.bootstrap_servers, group_of(place.topics), "test")
    client = Clients().consumer(connection)
    try:
        for length in range(1, 60):
            offsets = {TopicPartition(place.real_topic, number): Stored(length, "x" * length) for number in range(4)}
            client.store(offsets)
            assert Clients().stored(connection, offsets) == offsets
    finally:
        client.close()


def test_members_that_want_different_tags_notice(place: Topics, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "checkback")
    began = monotonic()
    one = member(place, Recording(), {place.real_topic: "a"})
    with one, member(place, Recording(), {place.real_topic: "b"}):
        soon(lambda: f"wants other tags of {place.real_topic} than" in caplog.text)
    assert monotonic() - began < 25, "who has no partitions yet leaves at once, too, and nobody waits for it"


def test_three_that_run_go_back_and_forward(place: Topics, tmp_path: Path) -> None:
    config = tmp_path / "checkback.toml"
    config.write_text(
        f'[kafka]\nbootstrap_servers = "{place.bootstrap_servers}"\ntopic_prefix = "{place.topics.prefix}"\n'
    )

    def reset(to: str, *more: str, status: int = 0) -> list[Any]:
        command = ["offsets", "reset", "--config", str(config), "--group", group_of(place.topics)]
        result = CliRunner().invoke(app, [*command, "--topic", place.real_topic, "--to", to, "--yes", "--json", *more])
        assert result.exit_code == status, result.output + repr(result.exception)
        return [json.loads(line) for line in result.stdout.splitlines()]

    seen, may_end = Recording(), threading.Event()
    members = [member(place, seen, hear_resets=True) for _ in range(3)]
    write(place, *numbered(0, 80))
    with members[0], members[1], members[2]:
        soon(lambda: len(seen.messages) == 80)
        soon(lambda: all(one.figures().partitions for one in members))
        soon(lambda: {part: stored.offset for part, stored in stored_by(place).items()} == ends_of(place))
        assert {row["goes on at"] for row in reset("-5")} == {15}
        soon(lambda: len(seen.messages) == 100)
        assert {value for value, count in seen.counts.items() if count > 1} == set(numbered(60, 20))

        seen._says = lambda *_: SUCCESS if may_end.wait(60) else LATER
        write(place, *numbered(80, 80))
        soon(lambda: len(seen.messages) > 100)
        assert {row["what"] for row in reset("latest", status=1)} == {"stays: forward only with --force"}
        assert {row["goes on at"] for row in reset("latest", "--force")} == {40}
        may_end.set()
        write(place, b"new", b"new", b"new", b"new")
        soon(lambda: seen.counts[b"new"] == 4)
        assert len(seen.messages) <= 100 + 4 * 4 + 4  # those that listeners had in hand, and no other
    assert {part: stored.offset for part, stored in stored_by(place).items()} == ends_of(place)
