"""Groups that have run, on a Kafka that has forgotten their offsets."""

import logging
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from checkback.consumer import StartAt, engine
from checkback.consumer.clients.base import Connection, KafkaAwayError
from checkback.consumer.clients.group_client import Clients, GroupClient
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from tests.consumer.group import group_of, member, stored_by, write
from tests.consumer.waiting import Recording, soon
from tests.place import Place as Topics


def expire(place: Topics) -> None:
    """As Kafka does when nobody of the group ran for a week."""
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        soon(lambda: not admin.describe_groups([group_of(place.topics)])[group_of(place.topics)]["members"])
        admin.delete_groups([group_of(place.topics)])
    soon(lambda: not stored_by(place))


def make_again(place: Topics) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_topics([place.real_topic])
    with TopicAdministration(place.bootstrap_servers) as administration:
        soon(lambda: not administration.partitions([place.real_topic]))
        administration.create_one(place.real_topic, 4)
        soon(lambda: administration.partitions([place.real_topic]))


@pytest.mark.parametrize("forget", [expire, make_again])
def test_a_group_that_has_run_passes_over_nothing(
    place: Topics, forget: Callable[[Topics], None], caplog: pytest.LogCaptureFixture
) -> None:
    with member(place, Recording(), start_at=StartAt.LAST):
        soon(lambda: len(stored_by(place)) == 4)
    forget(place)
    write(place, *[b"%d" % number for number in range(8)])
    with member(place, seen := Recording(), start_at=StartAt.LAST):
        soon(lambda: len(seen.values) == 8)
    assert sorted(seen.values) == [b"%d" % number for number in range(8)]
    lost = [one for one in caplog.records if "its stored offset is gone" in one.getMessage()]
    assert {one.levelno for one in lost} == {logging.ERROR}
    assert len(lost) == 4


def test_a_topic_that_is_made_again_while_the_group_runs_is_read_from_its_first_message(
    place: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 1.0)
    write(place, *[b"old"] * 4)
    with member(place, seen := Recording(), start_at=StartAt.LAST):
        soon(lambda: len(stored_by(place)) == 4)
        write(place, *[b"before"] * 4)
        soon(lambda: len(seen.values) == 4)
        make_again(place)
        write(place, *[b"%d" % number for number in range(8)])
        soon(lambda: len(set(seen.values)) == 9)
    assert (seen.counts[b"old"], seen.counts[b"before"]) == (0, 4)


def test_a_topic_that_is_made_again_on_a_broker_that_was_restarted_is_read(
    place: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader epochs begin again, and are lower than those that librdkafka remembers.

    A client forgets its topics also while Kafka is away.
    """
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 1.0)
    with LocalKafka() as kafka:
        own = place.on(kafka.bootstrap_servers)
        own.create_topics(4)
        connection = Connection(kafka.bootstrap_servers, "others", "test")
        with member(own, seen := Recording()), closing(Clients().consumer(connection)) as client:
            write(own, *[b"old"] * 4)
            soon(lambda: len(seen.values) == 4)
            kafka.kill()
            client.forget()
            kafka.start()
            soon(lambda: _answers(client))
            write(own, *[b"before"] * 4)
            soon(lambda: len(seen.values) == 8)
            with closing(KafkaAdminClient(bootstrap_servers=own.bootstrap_servers)) as admin:
                admin.delete_topics([own.real_topic])
            time.sleep(3)  # until clients have asked, and heard that it is not there
            with TopicAdministration(own.bootstrap_servers) as administration:
                administration.create_one(own.real_topic, 4)
                soon(lambda: administration.partitions([own.real_topic]))
            write(own, *[b"%d" % number for number in range(8)])
            soon(lambda: len(set(seen.values)) == 10)


def _answers(client: GroupClient) -> bool:
    try:
        return client.partitions(["none"]) == {}
    except KafkaAwayError:
        return False


def test_topics_have_ids_of_their_own(place: Topics) -> None:
    with closing(Clients().consumer(Connection(place.bootstrap_servers, "points", "test"))) as client:
        found = client.topic_ids([*place.topics.all(), place.real_topic])
    assert len(set(found.values())) == len(place.topics.all()) + 1
