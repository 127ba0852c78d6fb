"""Which endpoints heartbeats tell of, where checks are answered by services elsewhere. The consumer is a fake."""

import time
from collections.abc import Iterator

import pytest
from kafka.errors import KafkaConnectionError

from checkback.wire.checks import Announcement
from checkers import Announced
from conf import Settings
from tests.checkers.kafka_fakes import REGISTRY, FakeConsumer, Record
from tests.place import wait_until


class Scene:
    """A follower with a clock, and the topic that it follows."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.consumer = FakeConsumer(REGISTRY)
        self.opened = 0
        settings = Settings.model_validate({"checks": {"endpoints": {"fixed": ["http://f:1/"]}}})
        self.announced = Announced(settings, self._connect, lambda: self.now_ms)

    def _connect(self, _: Settings) -> FakeConsumer:
        self.opened += 1
        return self.consumer

    def put(self, group: str, url: str, age_ms: int = 0) -> None:
        key, value = Announcement(group, url, url, 0).to_record()
        at = len(self.consumer.records)
        written_ms = time.time_ns() // 1_000_000 - age_ms
        self.consumer.records.append(Record(at, key, value, timestamp=written_ms))

    def endpoints(self) -> dict[str, list[tuple[str, str, str]]]:
        found = self.announced.standing() or {}
        return {name: [(one.url, one.state, one.reason) for one in group.endpoints] for name, group in found.items()}


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.announced.stop()


def test_who_is_heard_from_is_well_and_who_fell_silent_is_said(scene: Scene) -> None:
    scene.put("old", "http://o:1/", age_ms=600_000)
    scene.put("new", "http://n:1/")
    assert scene.announced.standing() is None, "nobody knows yet"
    scene.announced.start()
    wait_until(lambda: scene.announced.standing() is not None)
    assert scene.endpoints() == {
        "fixed": [("http://f:1/", "well", "")],
        "new": [("http://n:1/", "well", "")],
        "old": [("http://o:1/", "skipped", "no heartbeat for 10 min")],
    }
    scene.put("old", "http://o:2/")
    wait_until(lambda: scene.endpoints()["old"] == [("http://o:2/", "well", "")])
    scene.now_ms += 600_000
    assert scene.endpoints()["new"] == [("http://n:1/", "skipped", "no heartbeat for 10 min")]


def test_nothing_is_said_while_kafka_is_away_and_it_goes_on_after(scene: Scene) -> None:
    scene.put("new", "http://n:1/")
    scene.announced.start()
    wait_until(lambda: scene.announced.standing() is not None)
    scene.consumer.fails = [KafkaConnectionError("gone")] * 2
    wait_until(lambda: scene.opened > 1)
    wait_until(lambda: "new" in scene.endpoints())
