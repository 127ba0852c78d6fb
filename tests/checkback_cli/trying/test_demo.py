"""The demo's shop, and its proof on records written by hand."""

from collections import Counter
from pathlib import Path

import pytest

from checkback import LocalTransactionState, TransactionProducer
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from checkback_cli.trying.demo_shop import Fate, Proof, Shop, make_orders, prove
from checkback_cli.trying.demo_shop.demonstration import Screen
from streaming import BatchReport
from tests.place import Place


def test_the_same_seed_makes_the_same_orders() -> None:
    assert make_orders(200, 7) == make_orders(200, 7)
    assert make_orders(200, 7) != make_orders(200, 8)


def test_orders_are_numbered_and_every_fate_happens() -> None:
    orders = make_orders(1_000, 1)
    assert [order.number for order in orders] == list(range(1_000))
    fates = Counter(order.fate for order in orders)
    assert fates.keys() == set(Fate)
    assert fates.most_common(1)[0][0] is Fate.COMMITS


SOUND = {"in_database": 2, "delivered": 2, "missing": 0, "invented": 0, "repeated": 0, "altered": 0}


def test_a_proof_holds_without_a_fault() -> None:
    assert Proof(**SOUND).holds


@pytest.mark.parametrize("fault", ["missing", "invented", "repeated", "altered"])
def test_one_fault_is_enough_for_a_proof_not_to_hold(fault: str) -> None:
    assert not Proof(**{**SOUND, fault: 1}).holds


def deliver(place: Place, *records: tuple[str, bytes]) -> None:
    producer = place.producer()
    for number, (transaction_id, value) in enumerate(records):
        headers = [("cb-id", transaction_id.encode()), ("trace", b"1")]
        producer.send(place.real_topic, value, headers=headers, partition=number % 4)
    producer.close()


def test_everything_once_is_proved_and_nothing_of_nothing(place: Place) -> None:
    assert prove(place.bootstrap_servers, place.real_topic, {}) == Proof(0, 0, 0, 0, 0, 0)
    deliver(place, ("a", b"1"), ("b", b"2"))
    proof = prove(place.bootstrap_servers, place.real_topic, {"a": b"1", "b": b"2"})
    assert proof == Proof(in_database=2, delivered=2, missing=0, invented=0, repeated=0, altered=0)
    assert proof.holds


def test_every_fault_is_found(place: Place) -> None:
    deliver(
        place,
        *(("sound", b"1"), ("altered", b"other")),
        *(("twice", b"3"), ("twice", b"3"), ("thrice", b"4"), ("thrice", b"4"), ("thrice", b"4")),
        *(("invented", b"5"), ("another", b"6"), ("a third", b"7")),
    )
    database = {"sound": b"1", "altered": b"2", "twice": b"3", "thrice": b"4", "gone": b"8", "lost": b"9"}
    proof = prove(place.bootstrap_servers, place.real_topic, database)
    assert proof == Proof(in_database=6, delivered=10, missing=2, invented=3, repeated=2, altered=1)
    assert not proof.holds


def test_a_shop_knows_what_became_of_its_orders(place: Place, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.db")
    by_fate = {order.fate: order for order in make_orders(1_000, 1)}
    with TransactionProducer(place.bootstrap_servers, "shop", shop, topics=place.topics) as producer:
        for order in by_fate.values():
            shop.place(producer, order)
    halves = {half.value: dict(half.headers)["cb-id"].decode() for half in place.read(place.topics.half)}
    ids = {fate: halves[order.message()] for fate, order in by_fate.items()}
    ops = {dict(op.headers)["cb-id"].decode(): dict(op.headers)["cb-action"] for op in place.read(place.topics.op)}
    assert ops == {ids[Fate.COMMITS]: b"commit", ids[Fate.ROLLS_BACK]: b"rollback"}
    kept = {Fate.COMMITS, Fate.CRASHES_AFTER_COMMIT}
    assert shop.orders() == {ids[fate]: by_fate[fate].message() for fate in kept}
    for fate, transaction_id in ids.items():
        asked = CheckRequest(transaction_id, "shop", "orders", None, None, [], HalfPosition(0, 0), 1, 15, 0)
        expected = LocalTransactionState.COMMIT if fate in kept else LocalTransactionState.ROLLBACK
        assert shop.check_local_transaction(asked) is expected


def batch(number: int, **counts: int) -> BatchReport:
    return BatchReport(number, written=0, skipped_partitions=0, counts=Counter(counts))


def test_the_demo_waits_as_long_as_something_moves_and_says_what() -> None:
    now = [0.0]
    screen = Screen(10, clock=lambda: now[0])
    now[0] = 800
    assert screen.stand() == "0 of 10 orders sent, 0 decided; the first batch has been under way for 800 s"
    assert not screen.stuck()
    screen.sent(10)
    now[0] = 1_000
    screen.observe(batch(0, half=10))
    now[0] = 1_250
    screen.observe(batch(1, committed=8, rolled_back=1))
    assert not screen.settled()
    now[0] = 1_500
    screen.observe(batch(2))
    now[0] = 1_503
    assert screen.stand() == "10 of 10 orders sent, 9 decided; batch 2 ended 3 s ago"
    assert not screen.stuck()
    now[0] = 1_551
    assert screen.stuck(), "batches that decide nothing are not enough"
    screen.observe(batch(3, committed=1))
    assert screen.settled()
