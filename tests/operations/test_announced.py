"""Which endpoints the records of cb.producers leave."""

from checkback.operations.producers import announced
from checkback.wire.checks import Announcement
from tests.kafka.made_records import TOPICS, Record


def record(instance: str, url: str | None, time_ms: int = 1, group: str = "shop") -> Record:
    key, value = Announcement(group, instance, url or "", 0).to_record()
    return Record(TOPICS.producers, 0, 0, time_ms, key, None if url is None else value)


def test_the_last_heartbeat_of_each_counts() -> None:
    found = announced([record("a", "http://a", 1), record("b", "http://b", 2), record("a", "http://a2", 3)])
    assert [(one.url, one.heard_ms) for one in found] == [("http://b", 2), ("http://a2", 3)]


def test_one_that_is_taken_back_is_gone() -> None:
    assert announced([record("a", "http://a"), record("a", None)]) == []


def test_one_that_cannot_be_read_takes_the_one_before_back() -> None:
    assert announced([record("a", "http://a"), Record(TOPICS.producers, 0, 1, 2, b"shop/a", b"?")]) == []


def test_one_that_the_check_service_does_not_read_is_not_shown_as_live() -> None:
    assert len(announced([record("a", "http://a"), record("b", f"http://{'b' * 16_000}")])) == 2
    assert announced([record("a", "http://a"), record("a", f"http://{'a' * 17_000}")]) == []
