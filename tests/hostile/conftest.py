"""One place for all tests of this folder that only read: to fill it takes longer than to read it."""

import uuid
from collections.abc import Iterator

import pytest

from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Topics
from tests.hostile.place import FAR_MS, GROUP, pollute, write_at_odd_times
from tests.place import Place, find_by_environment, wait_until


@pytest.fixture(scope="package")
def polluted(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, dict[str, int]]]:
    """Topics full of hostile records, and how many there are in each."""
    prefix = f"t{uuid.uuid4().hex[:12]}."
    place = Place(broker.bootstrap_servers, Topics(prefix), f"{prefix}orders", tmp_path_factory.mktemp("hostile"))
    any_time = {"message.timestamp.after.max.ms": str(FAR_MS), "retention.ms": "-1"}
    of_writers_time = [place.real_topic, place.topics.dead(GROUP)]
    with TopicAdministration(place.bootstrap_servers) as administration:
        for name in of_writers_time:
            administration.create_one(name, 1, configuration=any_time)
        administration.create_one(place.topics.retry(GROUP), 1)
        place.create_topics(real_partitions=1)
        wait_until(lambda: len(administration.partitions(of_writers_time)) == len(of_writers_time))
    topics = place.topics
    ours = (topics.half, topics.op, topics.check, topics.parked, topics.rejected, topics.status)
    counts = {name: pollute(place, name) for name in (*ours, topics.producers, topics.control, *of_writers_time)}
    for name in of_writers_time:
        counts[name] += write_at_odd_times(place, name)
    yield place, counts
    place.delete_topics()


@pytest.fixture
def typed_there(polluted: tuple[Place, dict[str, int]], monkeypatch: pytest.MonkeyPatch) -> Place:
    """The place, which commands find by the environment."""
    place, _ = polluted
    find_by_environment(place, monkeypatch)
    return place
