"""What dead letters and marks say, which are resent, and with what. No Kafka."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer import ReceivedMessage
from checkback.consumer.retries.dead_letter_topic import runs
from checkback.consumer.retries.dead_letters import (
    RESENT,
    DeadLetter,
    LetterFilter,
    LetterPlace,
    Letters,
    Mark,
    To,
    chosen,
    mark_of,
    parcels,
    resent,
    said_by,
)
from checkback.consumer.retry import OwnTopics, SentBack, as_it_was, begun_anew, dead_letter, for_everybody
from checkback.exceptions import OperatorError, ProtocolError
from checkback.wire.protocol import Topics
from tests.consumer.test_retry import MESSAGES, delivered

TOPICS = Topics()
OWN = OwnTopics.of(TOPICS, "points")
MESSAGE = ReceivedMessage("shop.orders", 3, 812, b"k", b"v", [("cb-id", b"tx-17"), ("trace", b"1")], 1_000, 16)


def place(text: str) -> LetterPlace:
    return LetterPlace.parse(text)


def lies(record: SentBack, at: str = "0:17", time_ms: int = 5_000) -> ReceivedMessage:
    """A record in the topic of dead letters."""
    return ReceivedMessage(record.topic, *place(at), record.key, record.value, record.headers, time_ms)


def letter(at: str, topic: str = "shop.orders", size: int = 1) -> DeadLetter:
    return DeadLetter(place(at), 5, "no", size, f"{topic}:0:1" if topic else "", topic)


def found(*letters: DeadLetter, marks: dict[str, Mark] | None = None) -> Letters:
    return Letters({one.place: one for one in letters}, {place(at): mark for at, mark in (marks or {}).items()})


def mark(at: str) -> Mark:
    return Mark(place(at), "cb.retry.points", "ada", 7)


def test_a_letter_says_where_it_comes_from_and_why_it_died() -> None:
    assert said_by(lies(dead_letter(MESSAGE, OWN, "tried 17 times in vain"))) == DeadLetter(
        place("0:17"), 5_000, "tried 17 times in vain", 144, "shop.orders:3:812", "shop.orders", 1_000, 17, "tx-17"
    )


def test_a_mark_says_which_letter_was_resent_and_is_told_from_a_letter() -> None:
    record = mark_of(place("2:17"), OWN, "cb.retry.points", "ada")
    assert record == SentBack(
        "cb.dlq.points",
        b"2:17",
        None,
        [
            ("checkback-resent", b"2:17"),
            ("checkback-resent-to", b"cb.retry.points"),
            ("checkback-resent-by", b"ada"),
        ],
        2,
    )
    assert said_by(lies(record, "2:19", 7)) == Mark(place("2:17"), "cb.retry.points", "ada", 7)


@pytest.mark.parametrize("said", [b"0:17", b"0:18", b"1:3", b"-1:3", b"0:03", b"\xff", b"", None])
def test_what_only_looks_like_a_mark_hides_no_letter(said: bytes | None) -> None:
    record = dead_letter(MESSAGE, OWN, "no")
    forged = record._replace(headers=[*record.headers, (RESENT, said)])
    assert isinstance(said_by(lies(forged)), DeadLetter)


@given(MESSAGES)
def test_an_application_s_headers_make_no_mark_of_a_letter(message: ReceivedMessage) -> None:
    forged = message._replace(headers=[*message.headers, (RESENT, b"0:1")])
    assert isinstance(said_by(lies(dead_letter(forged, OWN, "no"))), DeadLetter)


def test_a_letter_that_somebody_else_wrote_says_so_much() -> None:
    plain = said_by(ReceivedMessage("cb.dlq.points", 0, 17, None, b"four", [("a", None)], 5_000))
    assert plain == DeadLetter(place("0:17"), 5_000, "", 5)


@given(MESSAGES)
def test_a_letter_that_is_resent_comes_to_its_group_as_it_was_the_first_time(message: ReceivedMessage) -> None:
    half = begun_anew(as_it_was(lies(dead_letter(message, OWN, "no"))), OWN)
    assert half.topic == "cb.later"
    assert [name for name, _ in half.headers][:4] == ["cb-id", "cb-group", "cb-topic", "cb-action"]
    assert "cb-deliver-at" not in dict(half.headers)
    again = ReceivedMessage("cb.retry.points", 3, 812, half.key, half.value, delivered(list(half.headers)), 5)
    assert as_it_was(again) == message._replace(tries=0)
    assert as_it_was(again).id == message.id


@given(MESSAGES)
def test_to_its_origin_it_goes_as_it_was_there(message: ReceivedMessage) -> None:
    assert for_everybody(as_it_was(lies(dead_letter(message, OWN, "no")))) == SentBack(
        message.topic, message.key, message.value, list(message.headers), message.partition
    )


def test_to_its_origin_only_where_that_is_there_and_is_a_real_topic() -> None:
    def to_origin(topic: str, partition: int = 0) -> SentBack:
        lost = lies(dead_letter(MESSAGE._replace(topic=topic, partition=partition), OWN, "no"))
        return resent(lost, OWN, TOPICS, To.ORIGIN, {topic: [0, 1]})

    assert to_origin("shop.orders").partition == 0
    with pytest.raises(ProtocolError, match="has no partition 2 any more"):
        to_origin("shop.orders", 2)
    for topic in ("cb.half", "cb.retry.points", "cb.dlq.other", "__consumer_offsets", "no such", "."):
        with pytest.raises(ProtocolError):
            to_origin(topic)


def test_what_is_too_large_with_its_headers_goes_only_to_its_origin() -> None:
    lost = lies(dead_letter(MESSAGE._replace(value=bytes((16 << 20) + 1)), OWN, "no"))
    with pytest.raises(ProtocolError, match="too large"):
        resent(lost, OWN, TOPICS, To.RETRY, {})
    assert resent(lost, OWN, TOPICS, To.ORIGIN, {"shop.orders": [3]}).topic == "shop.orders"


def test_named_ones_are_chosen_in_their_order_but_for_those_that_were_resent() -> None:
    there = found(letter("0:1"), letter("0:9"), letter("1:3"), marks={"0:9": mark("0:9")})
    named = frozenset(map(place, ("1:3", "0:9", "0:1")))
    choice = chosen(there, LetterFilter(named))
    assert [str(one.place) for one in choice.letters] == ["0:1", "1:3"]
    assert choice.before == [(letter("0:9"), mark("0:9"))]
    assert [str(one.place) for one in chosen(there, LetterFilter(named, again=True)).letters] == ["0:1", "0:9", "1:3"]


def test_all_are_those_of_a_topic_that_say_where_they_come_from() -> None:
    there = found(letter("0:1"), letter("0:2", "shop.returns"), letter("0:3", ""), letter("0:4"))
    assert [str(one.place) for one in chosen(there, LetterFilter()).letters] == ["0:1", "0:2", "0:4"]
    assert chosen(there, LetterFilter()).without_origin == [letter("0:3", "")]
    assert [str(one.place) for one in chosen(there, LetterFilter(topic="shop.orders")).letters] == ["0:1", "0:4"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (LetterFilter({place("0:1"), place("0:7")}), "There is no dead letter at 0:7."),
        (LetterFilter({place("0:1")}, "shop.returns"), "These do not come from shop.returns: 0:1 (from shop.orders)."),
        (LetterFilter({place("0:3")}), "These do not say where they come from"),
    ],
)
def test_one_that_is_named_and_cannot_be_resent_is_an_error(wanted: LetterFilter, said: str) -> None:
    with pytest.raises(OperatorError) as error:
        chosen(found(letter("0:1"), letter("0:3", "")), wanted)
    assert str(error.value).startswith(said)
    assert str(error.value).endswith("Nothing was done.")


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 5), st.integers(0, 40))
def test_transactions_are_bounded_and_have_all_letters_in_order(sizes: list[int], most: int, most_bytes: int) -> None:
    letters = [letter(f"0:{number}", size=size) for number, size in enumerate(sizes)]
    made = list(parcels(letters, most, most_bytes))
    assert [one for parcel in made for one in parcel] == letters
    for parcel in made:
        assert 1 <= len(parcel) <= most
        assert len(parcel) == 1 or sum(one.size for one in parcel) <= most_bytes


@given(st.sets(st.builds(LetterPlace, st.integers(0, 2), st.integers(0, 2_000)), max_size=20))
def test_places_are_read_in_stretches_without_wide_gaps(places: set[LetterPlace]) -> None:
    stretches = list(runs(places))
    assert {one for stretch in stretches for one in stretch} <= places
    covered = [one for first, last in stretches for one in sorted(places) if first <= one <= last]
    assert covered == sorted(places)
    for first, last in stretches:
        inside = [one.offset for one in sorted(places) if first <= one <= last]
        assert first.partition == last.partition
        assert all(after - before <= 100 for before, after in pairwise(inside))
