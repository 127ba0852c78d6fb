"""Which lane a half message names, and what goes by which, without Kafka: each key keeps the order of its commits."""

from itertools import chain, cycle

from hypothesis import given
from hypothesis import strategies as st

from checkback import Message
from checkback.producing.direct.entries import LaneHalf, lane_half, order_keys
from checkback.producing.direct.key_order import KeyOrder

SLOTS = 3


def entry(name: str, slot: int, *keys: str, size: int = 1) -> LaneHalf:
    messages = [Message("paid", bytes(size), key.encode()) for key in keys] or [Message("paid", bytes(size))]
    return lane_half(name, f"lane{slot}", messages, numbered=len(messages) > 1, slot=slot)


def names(taken: list[LaneHalf]) -> list[str]:
    return [one.transaction_id for one in taken]


def test_lanes_take_turns_and_a_key_stays_with_its_own_while_it_is_in_use() -> None:
    order = KeyOrder(2)
    key = order_keys([Message("paid", b"v", b"k")])
    none = order_keys([Message("paid", b"v")])
    assert none == frozenset()
    assert len({order.slot(none, [0, 1]), order.slot(none, [0, 1])}) == 2
    first = order.slot(key, [0, 1])
    one, other = entry("t1", first, "k"), entry("t2", first, "k")
    order.add(one)
    order.add(other)
    order.discard(one)
    assert [order.slot(key, [0, 1]) for _ in range(3)] == [first] * 3
    assert order.slot(key, [1 - first]) == 1 - first, "its lane is lost"
    order.discard(other)
    assert {order.slot(key, [0, 1]) for _ in range(2)} == {0, 1}


def test_another_topic_is_another_key_and_a_partition_of_its_own_is_one() -> None:
    keys = order_keys(
        [Message("paid", b"", b"k"), Message("sent", b"", b"k", (), 3), Message("sent", b"", None, (), 4)]
    )
    assert keys == {("paid", b"k"), ("sent", b"k"), ("sent", 3), ("sent", 4)}


def test_what_is_under_way_holds_back_its_keys_alone() -> None:
    order = waiting(2, entry("t1", 0, "a", "b"), entry("t2", 1, "b"), entry("t3", 1, "c"), entry("t4", 1, "b", "d"))
    order.wait(entry("t5", 1, "d"))
    assert names(order.take(0)) == ["t1"]
    assert names(order.take(1)) == ["t3"], "t5 waits for t4, which waits for t1"
    order.landed(1)
    assert order.landed(0)
    assert names(order.take(1)) == ["t2", "t4", "t5"]
    assert not order.landed(0)


def test_what_must_wait_wakes_nobody() -> None:
    order = waiting(2, entry("t1", 0, "a"))
    assert not order.wait(entry("t2", 1, "a"))
    assert order.wait(entry("t3", 1, "b"))
    assert order.wait(entry("t4", 0, "a"))
    assert names(order.take(1)) == ["t3"]


def test_a_group_is_bounded_and_another_slots_queue_is_not_looked_through() -> None:
    order = waiting(2, *(entry(f"t{number}", 0, "hot") for number in range(1_200)), entry("other", 1))
    assert names(order.take(0)) == [f"t{number}" for number in range(200)]
    assert names(order.take(1)) == ["other"]
    order.landed(0)
    assert names(order.take(0)) == [f"t{number}" for number in range(200, 400)]
    order = waiting(2, entry("large", 0, size=4 << 20), entry("small", 0))
    assert names(order.take(0)) == ["large"], "larger than a group: alone"
    order.landed(0)
    assert names(order.take(0)) == ["small"]


def test_what_a_lost_lane_had_holds_back_nothing() -> None:
    order = waiting(2, entry("t1", 0, "a"), entry("t2", 1, "a"), entry("t3", 0, "a"))
    assert names(order.take(0)) == ["t1"]
    assert order.landed(0)
    assert names(order.clear(0)) == ["t3"]
    assert names(order.take(1)) == ["t2"]
    order.landed(1)
    assert not order._lines, "nothing is kept of keys that are not in use"


def waiting(slots: int, *entries: LaneHalf) -> KeyOrder:
    order = KeyOrder(slots)
    for one in entries:
        order.wait(one)
    return order


@given(
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.lists(st.sampled_from("abcd"), max_size=2, unique=True))),
    st.lists(st.permutations(range(SLOTS)), min_size=1),
)
def test_whatever_turns_the_lanes_take_each_key_is_read_in_order(
    halves: list[tuple[int, list[str]]], turns: list[list[int]]
) -> None:
    order = waiting(SLOTS, *(entry(f"{number:04}", slot, *keys) for number, (slot, keys) in enumerate(halves)))
    under_way: dict[int, list[LaneHalf]] = {slot: [] for slot in range(SLOTS)}
    readable: list[LaneHalf] = []
    for slot in chain.from_iterable(cycle(turns)):
        if not order.waits() and not any(under_way.values()):
            break
        readable += under_way[slot]
        order.landed(slot)
        under_way[slot] = order.take(slot)
    assert len(readable) == len(halves)
    for key in "abcd":
        of_key = [one.transaction_id for one in readable if ("paid", key.encode()) in one.keys]
        assert of_key == sorted(of_key)
