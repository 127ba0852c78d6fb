"""What of a partition is handed out, and what may be stored."""

import pytest

from checkback.consumer import ConsumerSettings, Order, ReceivedMessage, TagExpression, TopicPartition
from checkback.consumer.offsets.metadata import Endings, Stored, decode
from checkback.consumer.offsets.work import Parcel, PartitionWork, WorkRules

ORDERS = TopicPartition("orders", 0)


def work(tags: str = "*", stored: Stored = Stored(0), **settings: object) -> PartitionWork:  # noqa: B008  (a frozen one)
    chosen = ConsumerSettings(**settings)  # type: ignore[arg-type]  # names and values of its own fields
    return PartitionWork(ORDERS, stored, WorkRules(chosen, TagExpression.parse(tags)))


def message(offset: int, key: bytes | None = None, tag: bytes | None = None) -> ReceivedMessage:
    headers = [] if tag is None else [("tags", tag)]
    return ReceivedMessage("orders", 0, offset, key, b"x", headers)


def offsets(parcels: list[Parcel]) -> list[list[int]]:
    return [parcel.offsets for parcel in parcels]


def done(of: PartitionWork, parcel: Parcel) -> Parcel | None:
    assert of.begin(parcel, 0.0)
    return of.succeeded(parcel)


def test_without_order_all_are_handed_out_at_once_and_end_in_any_order() -> None:
    orders = work()
    parcels = orders.take([message(offset) for offset in range(4)])
    assert offsets(parcels) == [[0], [1], [2], [3]]
    done(orders, parcels[2])
    assert orders.to_store().offset == 0
    done(orders, parcels[0])
    stored = orders.to_store()
    assert (stored.offset, decode(stored).done) == (1, (range(2, 3),))


def test_the_next_reader_repeats_what_was_unfinished_and_nothing_else() -> None:
    orders = work()
    parcels = orders.take([message(offset) for offset in range(6)])
    for number in (0, 2, 3, 5):
        done(orders, parcels[number])
    after = work(stored=orders.to_store(leaving=True))
    assert offsets(after.take([message(offset) for offset in range(1, 8)])) == [[1], [4], [6], [7]]


def test_by_partition_one_waits_for_the_one_before() -> None:
    orders = work(order=Order.PARTITION)
    (first,) = orders.take([message(0, b"a"), message(1, b"b"), message(2, b"c")])
    second = done(orders, first)
    assert second is not None
    assert second.offsets == [1]
    assert orders.take([message(3)]) == []
    third = done(orders, second)
    assert third is not None
    last = done(orders, third)
    assert last is not None
    assert done(orders, last) is None
    assert offsets(orders.take([message(4)])) == [[4]]


def test_by_key_only_those_of_the_same_key_wait() -> None:
    orders = work(order=Order.KEY)
    parcels = orders.take([message(0, b"a"), message(1, b"b"), message(2, b"a"), message(3), message(4)])
    assert offsets(parcels) == [[0], [1], [3], [4]]
    assert done(orders, parcels[1]) is None
    behind = done(orders, parcels[0])
    assert behind is not None
    assert behind.offsets == [2]


def test_what_is_tried_again_is_a_batch_of_one_so_that_no_good_one_dies_with_a_bad_one() -> None:
    again = PartitionWork(ORDERS, Stored(0), WorkRules(ConsumerSettings(batch=20), retries=True))
    assert offsets(again.take([message(0), message(1)])) == [[0], [1]]


def test_a_batch_is_of_one_partition_and_with_an_order_by_key_of_one_key() -> None:
    mixed = [message(0, b"a"), message(1, b"b"), message(2, b"a"), message(3, b"a"), message(4, b"b")]
    assert offsets(work(batch=2).take(mixed)) == [[0, 1], [2, 3], [4]]
    by_key = work(batch=2, order=Order.KEY)
    parcels = by_key.take(mixed)
    assert offsets(parcels) == [[0, 2], [1, 4]]
    behind = done(by_key, parcels[0])
    assert behind is not None
    assert behind.offsets == [3]


def test_what_is_not_wanted_moves_the_window() -> None:
    orders = work("paid || refunded")
    tags = [b"paid", b"new", None, b"refunded", b"new"]
    parcels = orders.take([message(offset, tag=tag) for offset, tag in enumerate(tags)])
    assert offsets(parcels) == [[0], [3]]
    done(orders, parcels[0])
    assert orders.to_store().offset == 3
    done(orders, parcels[1])
    assert orders.to_store().offset == 5
    assert orders.counts.filtered == 3


def test_reading_pauses_where_the_window_or_memory_is_full() -> None:
    by_span = work(max_span=10)
    parcels = by_span.take([message(offset) for offset in range(10)])
    for parcel in parcels[1:]:
        done(by_span, parcel)
    assert by_span.full
    assert not by_span.roomy
    done(by_span, parcels[0])
    assert by_span.roomy
    by_number = work(max_messages=4)
    parcels = by_number.take([message(offset) for offset in range(4)])
    assert by_number.full
    done(by_number, parcels[0])
    assert not by_number.roomy
    done(by_number, parcels[3])
    assert by_number.roomy


def test_memory_is_given_back() -> None:
    orders = work()
    parcels = orders.take([ReceivedMessage("orders", 0, 0, b"key", bytes(1_000), [("a", b"12")])])
    assert orders.bytes >= 1_006
    done(orders, parcels[0])
    assert orders.bytes == 0


def test_what_is_stopped_hands_out_nothing_and_still_counts_what_ends() -> None:
    orders = work(order=Order.PARTITION)
    (first,) = orders.take([message(0), message(1)])
    assert orders.begin(first, 0.0)
    orders.stop()
    assert orders.succeeded(first) is None
    assert orders.to_store().offset == 1
    late = Parcel(orders, None, 1, message(1), 0)
    assert not orders.begin(late, 0.0)


def test_a_listener_that_was_given_up_says_nothing_any_more() -> None:
    orders = work()
    (first,) = orders.take([message(0)])
    assert orders.begin(first, 0.0)
    assert orders.put_down(first)
    assert not orders.put_down(first)
    assert orders.succeeded(first) is None
    assert orders.to_store().offset == 0


def test_a_reader_that_leaves_in_order_says_so() -> None:
    orders = work()
    assert decode(orders.to_store()).endings == Endings(running=True)
    assert orders.to_store(leaving=True) == Stored(0)


@pytest.mark.parametrize(("deaths", "chunks"), [(0, [6]), (1, [6]), (3, [1, 1, 1, 1, 1, 1])])
def test_after_readers_that_ended_without_a_word_chunks_are_smaller(deaths: int, chunks: list[int]) -> None:
    before = Stored(0, f"cb1;0;1;{deaths - 1};0;;") if deaths else Stored(0)
    orders = work(stored=before)
    seen = []
    parcels = orders.take([message(offset) for offset in range(6)])
    while parcels or orders.chunk_waits:
        parcels = parcels or orders.next_chunk()
        seen.append(len(parcels))
        for parcel in parcels:
            done(orders, parcel)
        parcels = []
    assert seen == chunks


def test_the_one_message_that_kills_is_found_whatever_comes_before_and_behind_it() -> None:
    """Readers one after the other, each of which dies at message 37, stores at times, and hands out 100 at once."""
    stored, begun_alone, poisoned = Stored(0), 0, 37
    for _ in range(12):
        reader = work(stored=stored, max_deaths=3)
        stored = reader.to_store()
        waiting = reader.take([message(offset) for offset in range(stored.offset, 100)])
        dead = False
        while not dead and (waiting or reader.chunk_waits):
            if not waiting:
                if reader.one_by_one:
                    if reader.kills():
                        parcel = reader.take_first_waiting()
                        assert parcel is not None
                        assert parcel.offsets == [poisoned]
                        assert begun_alone == 3
                        reader.ended(parcel)
                        stored = reader.to_store()
                        continue
                    reader.about_to_begin()
                reader.stored = stored = reader.to_store()
                waiting = reader.next_chunk()
            dead = any(poisoned in parcel.offsets for parcel in waiting)
            begun_alone += dead and reader.one_by_one
            for parcel in waiting:
                if not dead:
                    done(reader, parcel)
            waiting = []
        if not dead:
            break
    assert reader.to_store().offset == 100


def test_how_often_a_message_was_begun_says_nothing_of_the_next_one() -> None:
    orders = work(stored=Stored(0, "cb1;0;1;2;2;;"))
    orders.take([message(0), message(1)])
    orders.about_to_begin()
    assert decode(orders.to_store()).endings == Endings(running=True, without_a_word=3, alone=3)
    (first,) = orders.next_chunk()
    done(orders, first)
    assert decode(orders.to_store()).endings.alone == 0
    orders.about_to_begin()
    assert decode(orders.to_store()).endings.alone == 1


@pytest.mark.parametrize("seconds", [0, 60])
def test_the_message_that_kills_is_found_however_long_it_takes_to_kill(seconds: int) -> None:
    """Readers one after the other, whose listeners are done with all messages at once but 7, and die of that later."""
    stored, poisoned, deaths = Stored(0), 7, 0
    while stored.offset <= poisoned and deaths < 20:
        reader = work(stored=stored, max_deaths=3)
        parcels = reader.take([message(offset) for offset in range(stored.offset, 20)])
        stored, dies = reader.to_store(), False
        while not dies:
            for parcel in parcels:
                assert reader.begin(parcel, 0.0)
                dies = dies or poisoned in parcel.offsets
                if poisoned not in parcel.offsets:
                    reader.succeeded(parcel)
            parcels = []
            for lived in range(0, seconds if dies else 2, 2):
                parcels += reader.calm(lived=lived >= 20)
                stored = reader.to_store()
            if reader.kills():
                break
            if reader.chunk_waits and reader.one_by_one:
                reader.about_to_begin()
            stored = reader.to_store()
            parcels += reader.next_chunk() if reader.chunk_waits else []
        deaths += dies
        if not dies:
            break
    assert deaths == 6
    assert stored.offset == poisoned


def test_after_one_ending_who_lives_waits_for_no_chunk_and_is_well_when_what_was_in_hand_is_done() -> None:
    orders = work(stored=Stored(0, "cb1;0;1;0;0;;"))
    orders.take([message(offset) for offset in range(1_030)])
    slow, *quick = orders.next_chunk()
    for parcel in (slow, *quick):
        assert orders.begin(parcel, 0.0)
    for parcel in quick:
        orders.succeeded(parcel)
    assert orders.calm(lived=False) == []
    assert len(orders.calm(lived=True)) == 1_030 - 1_024
    assert orders.calm(lived=True) == []
    assert decode(orders.to_store()).endings == Endings(running=True, without_a_word=1)
    orders.succeeded(slow)
    orders.calm(lived=True)
    assert decode(orders.to_store()).endings == Endings(running=True)


def test_who_is_done_with_all_that_may_have_killed_is_well_at_once() -> None:
    """However often readers are killed: who gets on is slowed down for one chunk of the reader before."""
    orders = work(stored=Stored(0, "cb1;0;1;2;0;;"))
    assert orders.take([message(offset) for offset in range(100)]) == []
    for number in range(64):
        assert orders.calm(lived=False) == []
        assert decode(orders.to_store()).endings.without_a_word == 3
        orders.about_to_begin()
        (parcel,) = orders.next_chunk()
        assert parcel.offsets == [number]
        done(orders, parcel)
    assert len(orders.calm(lived=False)) == 36
    assert decode(orders.to_store()).endings == Endings(running=True)


def test_what_rests_while_its_reader_becomes_well_is_handed_out_at_its_time_and_holds_its_key() -> None:
    orders = work(stored=Stored(0, "cb1;0;1;2;2;;"), order=Order.KEY)
    orders.take([message(0, b"a"), message(1, b"b"), message(2, b"a")])
    orders.about_to_begin()
    (failed,) = orders.next_chunk()
    assert orders.begin(failed, 0.0)
    assert orders.put_down(failed)
    assert orders.busy
    orders.rest(failed)
    assert not orders.busy
    assert not orders.chunk_waits
    assert decode(orders.to_store()).endings == Endings(running=True, without_a_word=3, alone=2)
    assert not orders.rested(failed)
    assert orders.chunk_waits
    orders.about_to_begin()
    assert orders.next_chunk() == [failed]
    orders.rest(failed)
    orders._finished = 1
    assert offsets(orders.calm(lived=False)) == [[1]]
    assert orders.rested(failed)
    next_one = done(orders, failed)
    assert next_one is not None
    assert next_one.offsets == [2]


def test_who_has_nothing_left_to_do_is_well_after_a_while() -> None:
    orders = work(stored=Stored(0, "cb1;0;1;2;0;;"))
    orders.take([message(0)])
    (parcel,) = orders.next_chunk()
    assert orders.begin(parcel, 0.0)
    assert orders.calm(lived=True) == []
    assert decode(orders.to_store()).endings.without_a_word == 3
    orders.succeeded(parcel)
    orders.calm(lived=False)
    assert decode(orders.to_store()).endings.without_a_word == 3
    orders.calm(lived=True)
    assert decode(orders.to_store()).endings == Endings(running=True)
