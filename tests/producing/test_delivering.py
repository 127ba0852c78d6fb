"""The lane's thread, with a Kafka that does as it is told."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from checkback import HalfMessage, HalfPosition, Message
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.librdkafka.lanes import LaneLostError, LaneRecord, LaneRefusedError
from checkback.kafka.transport import Heard, OutgoingRecord
from checkback.own_lanes import owner_of
from checkback.producing.direct.book import Book
from checkback.producing.direct.delivering import Delivering, Links
from checkback.producing.direct.entries import LaneHalf, lane_half
from checkback.producing.ops import op_record
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import HalfPosition as Place
from tests.place import wait_until

FAR = 10**13
"""Offsets so far apart that a ledger takes a few of them."""


class FakeKafka:
    """Lanes, a settler and ops. What it is to raise next it is told; all that happens is in ``told``."""

    def __init__(self) -> None:
        self.failures: list[Exception | None] = []
        self.going = threading.Event()
        self.going.set()
        self.begun = 0
        self.spent_lanes: set[str] = set()
        self.delivered: list[list[bytes]] = []
        self.ledgers: list[str] = []
        self.lanes: list[str] = []
        self.settled: list[str] = []
        self.ledger: Ledger | None = Ledger()
        self.away = 0
        self.ops: list[tuple[Place, str]] = []
        self.lose_ops = 0
        self.hold = False
        self.held: list[Heard] = []
        self.logs_taken = 0

    # a lane's writer

    @property
    def spent(self) -> bool:
        return self.lanes[-1] in self.spent_lanes

    def open(self) -> None:
        pass

    def take_log(self) -> None:
        self.logs_taken += 1

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 4)

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        self.begun += 1
        assert self.going.wait(60)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        self.delivered.append([record.value or b"" for record in records])
        self.ledgers.append(str(ledger))

    def close(self) -> None:
        pass

    # a settler

    def settle(self, group: str, lane: str) -> Ledger | None:
        assert group == "orders"
        if self.away:
            self.away -= 1
            raise KafkaUnreachableError("away")
        self.settled.append(lane)
        return self.ledger

    # ops

    def write_heard(self, record: OutgoingRecord, heard: Heard) -> None:
        headers = dict(record.headers)
        if self.lose_ops:
            self.lose_ops -= 1
            heard(RuntimeError("lost"))
            return
        self.ops.append((HalfPosition.parse(headers["cb-half"].decode()), record.headers[-1][0]))
        if self.hold:
            self.held.append(heard)
        else:
            heard(None)

    def hear(self) -> None:
        pass

    def lane(self, name: str) -> Any:
        self.lanes.append(name)
        return self


class Scene:
    """A lane's thread, and half messages that it may deliver."""

    def __init__(self) -> None:
        self.kafka, self.book = FakeKafka(), Book()

        def op(entry: LaneHalf, content: Any) -> OutgoingRecord:
            return op_record("op", "orders", entry.transaction_id, entry.place, content)

        kafka: Any = self.kafka
        links = Links(kafka, kafka.lane, lambda: kafka, "orders", op)
        self.delivering = Delivering(self.book, links, self.book)

    def prepared(self, offset: int, lane: str = "", topic: str = "paid") -> HalfMessage:
        name, place = f"t{offset}", HalfPosition(0, offset)
        message = Message(topic, b"%d" % offset)
        entry = lane_half(name, lane or self.delivering.lane, [message], numbered=False)
        self.book.add(entry)
        self.book.written(entry, place)
        return HalfMessage(name, topic, message.value, None, (), place, lane=entry.lane)

    def commit(self, *messages: HalfMessage) -> None:
        for message in messages:
            self.book.commit(message, "")

    def until(self, holds: Callable[[], bool]) -> None:
        wait_until(holds)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.delivering.close(1)


def of(offset: int, fact: str) -> tuple[Place, str]:
    return HalfPosition(0, offset), f"cb-{fact}"


def test_a_commit_that_nobody_has_answered_is_told_as_the_ledger_says(scene: Scene) -> None:
    kafka, lost = scene.kafka, scene.delivering.lane
    kafka.ledger = Ledger([HalfPosition(0, 1)])
    kafka.failures = [LaneLostError("no answer")]
    kafka.away = 2
    messages = [scene.prepared(offset) for offset in (1, 3)]
    open_one = scene.prepared(5)
    kafka.going.clear()  # until both are committed: what is committed when the lane is lost is its caller's to tell
    scene.commit(*messages)
    kafka.going.set()
    scene.until(lambda: len(kafka.ops) >= len(messages) and scene.delivering.lane not in {"", lost})
    assert kafka.settled == [lost]
    assert sorted(kafka.ops) == [of(1, "delivered"), of(3, "settled")]
    assert scene.book.commit(open_one, "") == (None, True), "it names a lane that is used no more"
    assert all(b"5" not in group for group in kafka.delivered)
    assert owner_of(lost) is scene.book


def test_a_lane_that_may_begin_nothing_more_is_settled_and_replaced(scene: Scene) -> None:
    """A connection failed during its last transaction, which was acknowledged: what it delivered is delivered."""
    kafka, spent = scene.kafka, scene.delivering.lane
    first, second = scene.prepared(1), scene.prepared(3)
    kafka.spent_lanes.add(kafka.lanes[-1])
    scene.commit(first)
    scene.until(lambda: scene.delivering.lane not in {"", spent})
    assert kafka.settled == [spent]
    assert kafka.delivered == [[b"1"]]
    assert kafka.ops == [of(1, "delivered")]
    assert scene.book.commit(second, "") == (None, True), "it names the lane that was replaced"


def test_the_log_of_an_idle_lane_is_taken(scene: Scene) -> None:
    """Librdkafka keeps its debug lines until then: 500 a second while brokers are away."""
    scene.until(lambda: scene.kafka.logs_taken > 1)


def test_while_a_lane_cannot_be_replaced_what_names_it_goes_the_jobs_way(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = scene.kafka
    opening = threading.Event()

    def open_late() -> None:
        assert opening.wait(60)

    monkeypatch.setattr(kafka, "open", open_late)
    kafka.failures = [LaneLostError("no answer")]
    messages = [scene.prepared(offset) for offset in (1, 2)]
    scene.commit(messages[0])
    scene.until(lambda: of(1, "settled") in kafka.ops)  # settled; now the next lane is being opened
    assert scene.book.commit(messages[1], "") == (None, True)
    opening.set()
    scene.until(lambda: bool(scene.delivering.lane))


def test_a_refused_message_goes_the_jobs_way_and_its_neighbours_again(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.going.clear()
    kafka.failures = [None, LaneRefusedError(frozenset({1}), "too large")]
    scene.commit(scene.prepared(0, topic="others"))
    scene.until(lambda: kafka.begun == 1)
    messages = [scene.prepared(offset, topic=topic) for offset, topic in ((1, "others"), (2, "paid"), (3, "others"))]
    scene.commit(*messages)
    kafka.going.set()  # they are one group
    scene.until(lambda: {of(1, "delivered"), of(2, "settled"), of(3, "delivered")} <= set(kafka.ops))
    scene.commit(scene.prepared(4))  # in order for us, and not for Kafka
    scene.until(lambda: of(4, "settled") in kafka.ops)
    assert kafka.settled == []
    assert len(kafka.lanes) == 1


def test_a_topic_that_has_refused_something_is_tried_again_by_another_lane(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = scene.kafka
    before = scene.delivering.lane
    kafka.failures = [LaneRefusedError(frozenset({0}), "too large")]
    scene.delivering._refused_seconds = 0.0
    scene.commit(scene.prepared(1))
    scene.until(lambda: scene.delivering.lane not in {"", before})
    scene.commit(scene.prepared(2))
    scene.until(lambda: of(2, "delivered") in kafka.ops)
    assert kafka.settled == [], "nothing was under way on the other one"


def test_one_whose_op_is_not_acknowledged_stays_listed(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.hold = True
    scene.commit(scene.prepared(1))
    scene.until(lambda: bool(kafka.held))
    scene.commit(scene.prepared(2))
    scene.until(lambda: len(kafka.held) == 2)
    kafka.hold = False
    for heard in kafka.held:
        heard(None)
    scene.commit(scene.prepared(7))
    scene.until(lambda: len(kafka.ledgers) == 3)
    assert kafka.ledgers == ["0:1", "0:1-2", "0:7"]


def test_an_op_that_is_lost_is_sent_again(scene: Scene) -> None:
    scene.kafka.lose_ops = 3
    scene.commit(scene.prepared(1))
    scene.until(lambda: scene.kafka.ops == [of(1, "delivered")])


def test_what_the_ledger_has_no_room_for_goes_the_jobs_way(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.hold = True
    messages = [scene.prepared(FAR + 2 * number) for number in range(300)]
    scene.commit(*messages)
    scene.until(lambda: len(kafka.ops) == 300)
    facts = [fact for _, fact in kafka.ops]
    assert facts.count("cb-delivered") > 200
    assert facts.count("cb-settled") > 10
    assert all(Ledger.parse(text).fits for text in kafka.ledgers)


def test_without_a_ledger_nobody_says_anything(scene: Scene) -> None:
    kafka, lost = scene.kafka, scene.delivering.lane
    kafka.ledger = None
    kafka.failures = [LaneLostError("no answer")]
    message = scene.prepared(1)
    scene.commit(message)
    scene.until(lambda: scene.delivering.lane not in {"", lost})
    assert kafka.ops == []
    assert not scene.book.leave(message)


def test_what_still_waits_at_the_end_is_the_jobs(scene: Scene) -> None:
    scene.kafka.failures = [LaneLostError("no answer")]
    scene.kafka.away = 10**9
    scene.commit(scene.prepared(1))
    scene.until(lambda: scene.delivering.lane == "")
    late = scene.prepared(2, lane="0" * 32)
    scene.delivering.close(0.2)
    scene.commit(late)
    assert of(1, "settled") not in scene.kafka.ops  # nobody knows
