"""Reading and committing, with a Kafka that goes away and comes back. The clients are fakes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from kafka.errors import (
    CommitFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata

from checkback import CheckRequest, HalfPosition
from checkback.kafka.outages import Outage
from checkback.wire.checks import Announcement
from checkers.behind import Route
from checkers.check import Check
from checkers.intake import Intake
from checkers.rereading import _AT_ONCE, Rereader, Rooms
from tests.checkers.kafka_fakes import REGISTRY, FakeConsumer, Record


class Stop(threading.Event):
    """Is set when what is waited for holds; pauses take no time, and are kept."""

    def __init__(self, holds: Callable[[], bool]) -> None:
        super().__init__()
        self._holds = holds
        self.pauses: list[float] = []

    def is_set(self) -> bool:
        return self._holds()

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        assert len(self.pauses) < 1_000, "it never comes to an end"
        return self._holds()


class Scene:
    """An intake between fakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("checkers.intake._COMMIT_SECONDS", 0.0)
        monkeypatch.setattr("checkers.intake._HEAR_SECONDS", 0.0)
        monkeypatch.setattr("checkers.intake._POLL_MS", 0)
        self.checks, self.registry = FakeConsumer(), FakeConsumer(REGISTRY)
        self.asked: list[str] = []
        self.away: set[str] = set()
        self.few = False
        """Those that nobody can be asked about are answered."""
        self.slow = False
        """Nobody answers yet."""
        self.unreachable: list[str] = []
        self.heard: list[Any] = []
        self.taken = Future[None]()
        self.taken.set_result(None)
        self.again = FakeConsumer(most=2)
        self.again.records = self.checks.records
        self.room = self.now_ms = 0
        rereader = Rereader(self.again, self._rooms, self._ask, self._later, 10, 1_000)
        outage = Outage("reading", lambda: 0)
        self.intake = Intake(self.checks, self.registry, self._ask, self._hear, outage, rereader)

    def _hear(self, announced: list[tuple[Any, int]]) -> "Future[None]":
        self.heard += announced
        return self.taken

    def _later(self) -> int:
        self.now_ms += 1_000
        return self.now_ms

    def _rooms(self, routes: list[Route]) -> "Future[Rooms]":
        rooms = Future[Rooms]()
        rooms.set_result(dict.fromkeys(routes, self.room))
        return rooms

    def _ask(self, checks: list[Check]) -> "Future[None]":
        for check in checks:
            if check.request.group in self.away and self.few:
                self.unreachable += [check.request.transaction_id] * (not check.answered)
                self.intake.finished(check.origin._replace(kept=True))
                continue
            if check.request.group in self.away:
                self.intake.postponed(check.origin, "nobody is there")
                continue
            self.asked.append(check.request.transaction_id)
            if not self.slow:
                self.intake.finished(check.origin)  # the answer is written
        return self.taken

    def put(self, *names: str, group: str = "orders") -> None:
        for name in names:
            request = CheckRequest(name, group, "paid", None, b"v", [], HalfPosition(0, ord(name[0])), 1, 15, 0)
            key, value, headers = request.to_record()
            at = len(self.checks.records)
            self.checks.records.append(Record(at, key, value, headers, timestamp=at))

    def note(self) -> str:
        return str(self.checks.commits[-1].metadata) if self.checks.commits else "nothing committed"

    def take_in(self) -> None:
        """The first step begins the partition, the second takes what is there."""
        self.intake.step()
        self.intake.step()

    def run_until(self, holds: Callable[[], bool]) -> Stop:
        stop = Stop(holds)
        self.intake.run(stop)
        return stop


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_what_is_read_is_asked_and_what_is_answered_is_committed(scene: Scene) -> None:
    scene.put("a", "b")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [2])
    assert scene.asked == ["a", "b"]


AWAY = [KafkaTimeoutError("late"), KafkaConnectionError("gone"), NodeNotReadyError(1), ConnectionResetError()]


@pytest.mark.parametrize("who", ["checks", "registry"])
@pytest.mark.parametrize("error", [*AWAY, UnknownMemberIdError()], ids=repr)
def test_kafka_may_be_away_for_long(scene: Scene, who: str, error: Exception) -> None:
    scene.put("a")
    getattr(scene, who).fails = [error] * 100
    stop = scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [1])
    assert scene.asked == ["a"]
    assert sum(stop.pauses) > 400


def test_an_answer_is_committed_soon_and_without_one_it_is_seldom_done(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a service that dies has not committed is asked again by the others."""
    monkeypatch.setattr("checkers.intake._COMMIT_SECONDS", 3_600.0)
    monkeypatch.setattr("checkers.intake._NEWS_COMMIT_SECONDS", 0.0)
    scene.take_in()
    before = len(scene.checks.commits)
    scene.take_in()
    assert len(scene.checks.commits) == before
    scene.put("a")
    scene.take_in()
    scene.take_in()
    assert scene.checks.committed_offsets()[-1:] == [1]


def test_a_commit_that_kafka_does_not_answer_is_made_again(scene: Scene) -> None:
    scene.put("a")
    scene.take_in()
    scene.checks.fails = [*AWAY]
    with pytest.raises(KafkaTimeoutError):
        scene.intake.commit()
    scene.checks.fails = []
    scene.intake.commit()
    assert scene.checks.committed_offsets()[-1] == 1


def test_a_partition_that_went_to_another_service_is_committed_no_more(scene: Scene) -> None:
    scene.put("a")
    scene.checks.fails = []
    scene.intake.step()
    scene.checks.fails = [CommitFailedError()]
    scene.intake.commit()
    committed = list(scene.checks.commits)
    scene.intake.commit()
    assert scene.checks.commits == committed


def test_after_a_pause_nothing_is_asked_of_partitions_that_others_have_by_now(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.intake._COMMIT_SECONDS", 3_600.0)
    scene.put("a")
    scene.take_in()
    scene.put("b", "c", "d")
    scene.checks.commits.append(OffsetAndMetadata(3, "", -1))  # another one has asked about b and c
    scene.checks.fails = [CommitFailedError()]
    monkeypatch.setattr("checkers.intake._PAUSED_SECONDS", 0.0)
    scene.intake.step()
    monkeypatch.setattr("checkers.intake._PAUSED_SECONDS", 3_600.0)
    scene.take_in()
    assert scene.asked == ["a", "d"]


def test_a_rebalance_may_last_longer_than_a_pause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that joins its group fails each commit, and only polls let it finish the join."""
    scene.put("a")
    scene.take_in()
    monkeypatch.setattr("checkers.intake._PAUSED_SECONDS", 0.0)
    scene.put("b")
    scene.checks.joins_until = scene.checks.polls + 10
    stop = scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [2])
    assert scene.asked == ["a", "b"]
    assert stop.pauses == [], "it took the rebalance for an outage, and would poll less and less often"


def test_a_check_under_way_is_not_asked_again_when_partitions_are_shared_out(scene: Scene) -> None:
    scene.slow = True
    scene.put("a", "b")
    scene.take_in()
    scene.intake.commit()
    scene.checks.seek(scene.checks.place, scene.checks.committed_offsets()[-1])  # as a rebalance does
    scene.put("c")
    scene.take_in()
    assert scene.asked == ["a", "b", "c"]


def test_a_topic_that_was_made_again_is_read_from_its_beginning(scene: Scene) -> None:
    scene.put("a", "b", "c")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [3])
    scene.away = {"orders"}
    scene.put("x")
    scene.run_until(lambda: scene.note() == '[["orders","paid",3]]')
    scene.away = set()
    scene.checks.records.clear()
    scene.put("d", "e")
    scene.checks.seek_to_beginning()  # as a consumer does whose position is not there
    scene.run_until(lambda: scene.asked == ["a", "b", "c", "d", "e"])
    scene.intake.commit()
    assert (scene.checks.committed_offsets()[-1], scene.note()) == (2, "")


def test_what_does_not_pass_ends_it(scene: Scene) -> None:
    scene.checks.fails = [TopicAuthorizationFailedError("cb.check")]
    with pytest.raises(TopicAuthorizationFailedError):
        scene.run_until(lambda: False)


def test_nothing_more_is_read_while_answers_wait_for_kafka(scene: Scene) -> None:
    scene.intake.step()
    scene.put("a")
    scene.intake.step(unwritten=20_000)
    assert (scene.checks.polls, scene.asked) == (1, [])
    scene.intake.step(unwritten=19_999)
    assert scene.asked == ["a"]


def test_nothing_more_is_read_while_the_loop_has_not_taken_what_there_is(scene: Scene) -> None:
    scene.taken = Future[None]()
    scene.put("a")
    scene.take_in()
    scene.put("b")
    scene.intake.step()
    assert scene.asked == ["a"]
    scene.taken.set_result(None)
    scene.intake.step()
    assert scene.asked == ["a", "b"]


def test_a_failure_to_take_checks_is_not_silent(scene: Scene) -> None:
    scene.taken = Future[None]()
    scene.taken.set_exception(ZeroDivisionError())
    scene.put("a", "b")
    scene.take_in()
    with pytest.raises(ZeroDivisionError):
        scene.intake.step()


def test_a_record_that_is_no_check_is_stepped_over(scene: Scene) -> None:
    scene.checks.records.append(Record(0, b"k", b"v", ()))
    scene.put("a")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [2])
    assert scene.asked == ["a"]


def test_all_announcements_that_are_there_are_heard_first(scene: Scene) -> None:
    key, value = Announcement("orders", "a", "http://x/", 0).to_record()
    scene.registry.records = [Record(0, key, value), Record(1, None, b"no key"), Record(2, key, None)]
    scene.intake.know_endpoints(threading.Event())
    assert [(one.key, one.value) for one, _ in scene.heard] == [(key, value), (key, None)]


def test_announcements_from_before_are_as_old_as_kafka_says_and_later_ones_are_new(scene: Scene) -> None:
    now_ms = time.time_ns() // 1_000_000
    scene.registry.records = [
        Record(0, b"a", b"v", timestamp=now_ms - 5_000),
        Record(1, b"b", b"v", timestamp=now_ms - 240_000),
    ]
    scene.intake.know_endpoints(threading.Event())
    assert [one.key for one, _ in scene.heard] == [b"b", b"a"], "in the order of time"
    assert [age // 1_000 for _, age in scene.heard] == [240, 5]
    scene.registry.records.append(Record(2, b"c", b"v", timestamp=now_ms - 60_000))
    scene.intake._listen()
    ((record, age),) = scene.heard[2:]
    assert (record.key, record.value, age) == (b"c", b"v", 0), "a clock that is off hides no endpoint"


def test_checks_of_a_group_that_is_away_wait_and_are_asked_when_it_is_back(scene: Scene) -> None:
    scene.away = {"orders"}
    scene.put("a", "b")
    scene.put("x", group="invoices")
    scene.put("c")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [4])
    assert scene.asked == ["x"]
    assert scene.note() == '[["orders","paid",0]]'
    scene.put("d")
    scene.put("y", group="invoices")
    scene.run_until(lambda: scene.asked == ["x", "y"])
    scene.away, scene.room = set(), 2
    scene.run_until(lambda: len(scene.asked) == 6)
    assert scene.asked == ["x", "y", "a", "b", "c", "d"]
    scene.run_until(lambda: scene.note() == "")
    scene.run_until(lambda: not scene.intake.busy)  # else it would poll without a pause for ever
    scene.put("e")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1] == 7)
    assert scene.asked[-1] == "e"


def test_what_waits_is_read_as_fast_as_it_may_be_asked_and_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.rereading._A_SECOND", 30)
    names = [f"a{number}" for number in range(1_500)]
    scene.away, scene.again.most = {"orders"}, 500
    scene.put(*names)
    scene.checks.records[:] = [record._replace(timestamp=0) for record in scene.checks.records]  # none is old
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [1_500])
    scene.away, scene.room, began_ms = set(), 1_000, scene.now_ms
    scene.run_until(lambda: scene.note() == "")
    assert scene.asked == names
    assert scene.again.given == 1_500
    assert scene.now_ms - began_ms >= 1000 * (1_500 - _AT_ONCE) / 30


def test_a_trial_that_finds_nobody_changes_nothing(scene: Scene) -> None:
    scene.away, scene.room = {"orders"}, 1
    scene.put("a", "b", "c")
    for _ in range(20):
        scene.intake.step()
    scene.intake.commit()
    assert (scene.asked, scene.note()) == ([], '[["orders","paid",0]]')
    scene.away = set()
    scene.run_until(lambda: scene.note() == "")
    assert scene.asked == ["a", "b", "c"]


def test_those_that_were_answered_unreachable_are_asked_when_somebody_is_there(scene: Scene) -> None:
    scene.away, scene.few = {"orders"}, True
    scene.put("a", "b", "a")
    scene.run_until(lambda: scene.note() == '[["orders","paid",1,"kept"]]')
    assert scene.unreachable == ["a", "b", "a"]
    scene.room = 1  # a trial: nobody answers yet
    for _ in range(20):
        scene.intake.step()
    scene.intake.commit()
    assert (scene.note(), len(scene.unreachable)) == ('[["orders","paid",1,"kept"]]', 3)
    scene.away, scene.room = set(), 10
    scene.run_until(lambda: scene.note() == "")
    assert scene.asked == ["b", "a"]
    scene.run_until(lambda: not scene.intake.busy)


def test_another_service_goes_on_with_what_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.away = {"orders"}
    scene.put("a", "b")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [2])
    other = Scene(monkeypatch)
    other.checks.records.extend(scene.checks.records)
    other.checks.commits = scene.checks.commits
    other.room = 10
    other.run_until(lambda: other.note() == "")
    assert other.asked == ["a", "b"]


def test_checks_so_old_that_the_job_has_asked_again_are_not_asked(scene: Scene) -> None:
    scene.away = {"orders"}
    scene.put("a", "b", "c")
    scene.put(*"123456789x", group="invoices")
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [13])
    scene.asked.clear()
    scene.away, scene.room = set(), 10
    scene.run_until(lambda: scene.note() == "")
    assert scene.asked == ["c"]


def test_a_partition_is_begun_where_it_was_committed_and_not_while_kafka_does_not_say(scene: Scene) -> None:
    scene.put("a", "b", "c")
    scene.checks.commits = [OffsetAndMetadata(1, "written by nobody of ours", -1)]
    scene.checks.fails = []
    real, answers = scene.checks.committed, [KafkaTimeoutError("late")]

    def committed(place: Any, **given: Any) -> Any:
        if answers:
            raise answers.pop()
        return real(place, **given)

    scene.checks.committed = committed  # type: ignore[method-assign, assignment]  # on purpose, for this test
    scene.run_until(lambda: scene.checks.committed_offsets()[-1:] == [3])
    assert scene.asked == ["b", "c"]
