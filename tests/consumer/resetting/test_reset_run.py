"""The command's side of a reset, with consumers made up; no Kafka, and a clock that only reading moves."""

from collections.abc import Callable, Mapping

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.resetting.control import ResetDone, ResetOrder
from checkback.consumer.resetting.group_offsets import GroupMember
from checkback.consumer.resetting.reset_run import BY_COMMAND, Report, ResetRun

ORDER = ResetOrder("one", "points", "orders", {0: 5, 1: 6, 2: 7})
STORED = {0: 9, 1: 9, 2: None}
P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


class Cluster:
    """A group, the control topic and the time."""

    def __init__(self, *members: GroupMember) -> None:
        self.now = 0.0
        self.group = list(members)
        self.orders: list[dict[int, int]] = []
        self.left: dict[bytes, bytes | None] = {}
        self.stored: dict[TopicPartition, int] = {}
        self.refuses = 0
        self.read_takes = 60.0
        self.answer: Callable[[dict[int, int]], list[ResetDone]] = lambda _: []
        self.opened = 0

    def open(self) -> "Cluster":
        self.opened += 1
        return self

    def members(self) -> list[GroupMember]:
        return self.group

    def set(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if self.group or self.refuses:
            self.refuses -= 1
            return False
        self.stored.update(offsets)
        return True

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        self.left.update(records)
        value = records.get(ORDER.key)
        if value is not None:
            self.orders.append(dict(ResetOrder.parse(value).offsets))

    def read(self, seconds: float) -> list[ReceivedMessage]:
        self.now += min(seconds, self.read_takes)
        noise = ReceivedMessage("cb.control", 0, 0, b"done/one/0", b"{")
        others = ResetDone("another", 2, 1, 7, "x")
        said = [others, *self.answer(self.orders[-1])]
        for one in said[1:]:
            self.left[one.key] = one.value
        return [noise, *(ReceivedMessage("cb.control", 0, 0, one.key, one.value) for one in said)]

    def run(self, seconds: float = 30) -> Report:
        return ResetRun(ORDER, STORED, self, self.open, lambda: self.now).run(seconds)


def done(partition: int, who: str = "a") -> ResetDone:
    return ResetDone("one", partition, 9, ORDER.offsets[partition], who)


A = GroupMember("a", "10.0.0.1", frozenset({P0, P1}))
B = GroupMember("b", "10.0.0.2", frozenset({P2}))


def test_a_group_without_members_is_set_by_the_command() -> None:
    cluster = Cluster()
    report = cluster.run()
    assert cluster.stored == ORDER.by_partition()
    assert report.done == {
        0: ResetDone("one", 0, 9, 5, BY_COMMAND),
        1: ResetDone("one", 1, 9, 6, BY_COMMAND),
        2: ResetDone("one", 2, 7, 7, BY_COMMAND),
    }
    assert (report.waited_for, cluster.opened, cluster.left) == ({}, 0, {})


def test_running_consumers_set_what_they_have_and_nothing_is_left_behind() -> None:
    cluster = Cluster(A, B)
    cluster.answer = lambda _: [done(0), done(1), done(2, "b")]
    report = cluster.run()
    assert {partition: one.consumer for partition, one in report.done.items()} == {0: "a", 1: "a", 2: "b"}
    assert cluster.orders == [dict(ORDER.offsets)]
    assert cluster.left == dict.fromkeys([ORDER.key, b"done/one/0", b"done/one/1", b"done/one/2"])
    assert cluster.now == 1


def test_the_order_is_repeated_for_what_is_left() -> None:
    cluster = Cluster(A, B)

    def answer(asked: dict[int, int]) -> list[ResetDone]:
        return [done(0)] if len(asked) == 3 else [done(1), done(2)] if cluster.now >= 3 else []

    cluster.answer = answer
    assert cluster.run().waited_for == {}
    assert [sorted(one) for one in cluster.orders] == [[0, 1, 2], [1, 2], [1, 2]]


def test_the_order_is_repeated_each_second_though_reading_gives_the_order_itself_at_once() -> None:
    cluster = Cluster(A, B)
    cluster.read_takes = 1 / 180
    assert cluster.run(seconds=3).waited_for == {0: A, 1: A, 2: B}
    assert len(cluster.orders) == 3


def test_who_does_not_answer_in_time_is_named() -> None:
    cluster = Cluster(A, B)
    cluster.answer = lambda _: [done(1)]
    report = cluster.run(seconds=3.5)
    assert list(report.done) == [1]
    assert report.waited_for == {0: A, 2: B}
    assert cluster.now == 3.5
    assert cluster.left[ORDER.key] is None


def test_a_partition_that_nobody_has_is_named() -> None:
    assert Cluster(A).run(seconds=2).waited_for == {0: A, 1: A, 2: None}


def test_a_group_that_stops_meanwhile_is_set_by_the_command() -> None:
    cluster = Cluster(A, B)

    def answer(_asked: dict[int, int]) -> list[ResetDone]:
        cluster.group = []
        return [done(0)]

    cluster.answer = answer
    report = cluster.run()
    assert cluster.stored == {P1: 6, P2: 7}
    assert {partition: one.consumer for partition, one in report.done.items()} == {0: "a", 1: BY_COMMAND, 2: BY_COMMAND}


def test_one_that_joins_as_it_is_to_be_set_hears_of_it() -> None:
    cluster = Cluster()
    cluster.refuses = 1
    cluster.answer = lambda _: [done(0), done(1), done(2)]
    assert cluster.run().waited_for == {}
    assert cluster.stored == {}


def test_no_time_left_no_order() -> None:
    cluster = Cluster(A, B)
    assert cluster.run(seconds=0).waited_for == {0: A, 1: A, 2: B}
    assert cluster.opened == 0
