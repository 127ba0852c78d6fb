"""What is announced in masses keeps no endpoint out, and stops nobody."""

from concurrent.futures import Future

import pytest

from checkback.wire.checks import Announcement
from checkers.announcers import Belief
from checkers.directory import EndpointDirectory
from tests.checkers.kafka_fakes import Record
from tests.checkers.test_directory import ONE, TTL_MS, TWO, directory, urls
from tests.checkers.test_intake import Scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


class _Ranked(Belief):
    def rank(self, group: str) -> int:
        return int(group.startswith("shop"))


@pytest.mark.parametrize("belief", [Belief(), _Ranked()], ids=["alike", "ranked"])
def test_groups_that_were_made_up_keep_no_new_endpoint_out(belief: Belief, caplog: pytest.LogCaptureFixture) -> None:
    heard = EndpointDirectory({}, 60_000, bytes_in_all=100_000)

    def announce(group: str, url: str, now_ms: int) -> None:
        heard.hear(*Announcement(group, url, url, 0).to_record(), now_ms, belief)

    announce("shop-old", ONE, 0)
    for number in range(500):
        announce(f"made-up-{number}", "http://made-up/", number)
    announce("shop", ONE, 500)
    announce("shop", TWO, 501)
    assert TWO in urls(heard, "shop", 501)
    assert sum(belief.rank(group) for group in heard.groups()) == 2 * belief.rank("shop")
    assert urls(heard, "shop", 501) == [TWO, ONE][: 1 + belief.rank("shop")]
    assert urls(heard, "shop-old", 501) == [ONE] * belief.rank("shop")
    assert [record.getMessage()[:19] for record in caplog.records] == ["Announced endpoints"]


def test_one_that_takes_long_to_read_counts_as_unreadable() -> None:
    heard = directory()
    key, value = Announcement("orders", "a", ONE, 0).to_record()
    heard.hear(key, value[:-1] + b', "unknown": [' + b"[]," * 20 + b"[]]}", 0)
    assert urls(heard, "orders", 0) == [ONE]
    heard.hear(key, value[:-1] + b', "unknown": [' + b"[]," * 5_000 + b"[]]}", 1)
    assert urls(heard, "orders", 1) == []


def test_what_endpoints_answer_for_takes_its_room() -> None:
    heard = EndpointDirectory({}, TTL_MS, bytes_in_all=1_000_000)
    for number in range(20):
        topics = tuple(str(topic) for topic in range(1_500))
        heard.hear(*Announcement(f"made-up-{number}", "a", ONE, 0, topics=topics).to_record(), 0)
    assert len(heard.groups()) == 9, "a name takes 64 bytes of memory beside its text"


def test_a_flood_of_announcements_is_read_at_once_and_no_faster_than_it_is_heard(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.intake._HEAR_SECONDS", 1e9)
    scene.registry.records = [Record(at, b"orders/%d" % at, b"{}") for at in range(1_200)]
    scene.put("a")
    for most in (500, 1_000):
        scene.intake.step()
        assert len(scene.heard) == most
        assert scene.intake.busy, "it does not wait for checks"
    assert scene.asked == ["a"], "checks are read meanwhile"
    scene.taken = Future[None]()
    for _ in range(3):
        scene.intake.step()
    assert len(scene.heard) == 1_200
    scene.registry.records += [Record(1_200 + at, b"orders/%d" % at, b"{}") for at in range(10)]
    scene.intake.step()
    assert len(scene.heard) == 1_200
    scene.taken.set_result(None)
    scene.intake.step()
    assert len(scene.heard) == 1_210
