"""Records of ``cb.parked`` that the job did not write do not hide those that it did."""

from random import Random

from checkback.operations.parked import ParkedMessages
from tests.fuzz.pieces import NOT_TEXT, Headers, changed, noise, without
from tests.place import Place

LAWFUL: Headers = [
    *(("cb-id", b"tx"), ("cb-group", b"shop"), ("cb-topic", b"paid")),
    *(("cb-half", b"1:7"), ("cb-reason", b"undecided for longer than the age limit")),
]


def test_what_is_no_parked_message_is_skipped(place: Place) -> None:
    random = Random(1)
    with place.producer() as kafka:
        for name, _ in LAWFUL:
            odd = [without(LAWFUL, name), *(changed(LAWFUL, name, content) for content in NOT_TEXT[:3])]
            for headers in (*odd, [(name, noise(random, 50))]):
                kafka.send(place.topics.parked, b"v", b"k", [*headers, ("x", b"")], 0)
        kafka.send(place.topics.parked, b"value", b"key", LAWFUL, 0).get(120)
    with ParkedMessages(place.bootstrap_servers, place.topics) as parked:
        (message,) = parked.read()
    assert (message.transaction_id, str(message.half), message.value) == ("tx", "1:7", b"value")


def test_two_messages_of_one_id_are_two(place: Place) -> None:
    def at(half: bytes, **others: bytes) -> Headers:
        return [*((name, half if name == "cb-half" else content) for name, content in LAWFUL), *others.items()]

    def ended(half: bytes) -> Headers:
        return [*(one for one in at(half) if one[0] != "cb-reason"), ("cb-ended", b"committed")]

    with place.producer() as kafka:
        for headers in (at(b"1:7"), at(b"0:3"), at(b"1:8"), ended(b"0:3"), at(b"1:7", again=b"")):
            kafka.send(place.topics.parked, b"v", b"k", headers, 0).get(120)
    with ParkedMessages(place.bootstrap_servers, place.topics) as parked:
        assert [str(message.half) for message in parked.read()] == ["1:8", "1:7"]
        assert [(str(one.half), one.became) for one in parked.read(ended=True) if one.became] == [("0:3", "committed")]
