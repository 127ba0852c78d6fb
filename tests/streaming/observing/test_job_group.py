"""How far check services have answered."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.kafka.librdkafka.library import Consumer, KafkaException
from checkback.wire.groups import checkers_group
from conf import Settings
from state import Usage
from status_page.overview import GroupsByName
from status_page.words import NO_ENDPOINT
from streaming.brokers.client import SinkSettings
from streaming.fairness.fairness import KnownUsage
from streaming.fairness.held_back import PartitionEnds, PartitionId
from streaming.observing.job_group import CheckersGroup
from streaming.observing.observation import Observation
from streaming.ownership.claim import Owner
from tests.place import Place, wait_until


def test_the_end_of_the_jobs_transaction_is_no_check_that_waits(place: Place) -> None:
    servers: dict[str, Any] = {"bootstrap.servers": place.bootstrap_servers}
    check, seen = PartitionId(place.topics.check, 0), list[Mapping[PartitionId, PartitionEnds]]()
    settings = SinkSettings.of(place.settings())
    group, admin = CheckersGroup(settings, seen.append), AdminClient(servers)

    def behind() -> int | None:
        try:
            group.look(admin)
        except KafkaException:  # the broker's first group: its coordinator begins
            return None
        return seen[-1][check].end - seen[-1][check].stable

    wait_until(lambda: behind() == -1)
    producer = Producer({**servers, "transactional.id": place.topics.prefix + "batch"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(check.topic, b"check", partition=check.partition)
    producer.commit_transaction(30)
    wait_until(lambda: behind() == 3, "no service has begun yet")
    service = Consumer({**servers, "group.id": checkers_group(place.topics), "enable.auto.commit": False})
    for answered, wait in ((2, 1), (3, 0)):
        service.commit(offsets=[TopicPartition(*check, answered)], asynchronous=False)
        assert behind() == wait
    service.close()


def test_checks_that_no_service_answers_are_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the check service dead, the page showed "Asked for the first time" and "due now" for hours."""
    clock, place = [0.0], PartitionId("cb.check", 1)
    monkeypatch.setattr("streaming.observing.observation.time.monotonic", lambda: clock[0])
    seen = Observation(Settings())
    seen.answered({place: PartitionEnds(3, 9)})
    clock[0] = 500.0
    seen.of(Owner("query", "job"), lambda: KnownUsage({"shop": Usage(open=1)}, 0, {}), dict)

    def looked(at: float, answered: int) -> tuple[str, tuple[str, ...]]:
        clock[0] = at
        seen.answered({place: PartitionEnds(answered, 9), PartitionId("cb.check", 0): PartitionEnds(4, 4)})
        facts = seen.facts()
        assert seen.metrics.registry.get_sample_value("checkback_checks_unanswered_seconds") is not None
        return facts.groups[0].unasked, tuple(note for note in facts.notes if "Undecided" in note)

    assert looked(501, 3)[1] == looked(520, 5)[1] == looked(579, 5)[1] == ()
    unasked, (note,) = looked(600, 5)
    assert unasked == "the check service has answered no check for 80 s"
    assert note.startswith("Undecided transactions stay open. Restart the job")
    assert note.endswith(unasked)
    assert seen.metrics.registry.get_sample_value("checkback_checks_unanswered_seconds") == 80
    assert GroupsByName(seen.facts())["a group that the job does not name"].unasked == unasked
    assert looked(605, 9) == (NO_ENDPOINT, ())
