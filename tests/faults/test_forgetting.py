"""Fault runs in which Kafka forgets: what they hold, and what their oracle says. The runs themselves: a command."""

from collections import Counter
from itertools import islice, product
from pathlib import Path

from checkback.consumer import PullResult, PullStatus, ReceivedMessage
from torture.effects.orders import TOPIC, Order
from torture.forgetting import made_again, quiet
from torture.forgetting.made_again import How, Name, When
from torture.forgetting.pulling import database, read_once
from torture.forgetting.system import Part, Wrong

DECK = 91


def test_a_deck_has_every_topic_made_again_and_cut_short_at_every_moment() -> None:
    for seed in range(5):
        rounds = list(islice(made_again.schedule(seed), DECK))
        wanted = {
            *product(Name, [How.MADE_AGAIN], When),
            *product(Name, [How.CUT], [When.RUNNING, When.DOWN, When.DOWN_BEYOND]),
        }
        assert {(one.topic, one.how, one.when) for one in rounds} == wanted
        assert [one.number for one in rounds] == list(range(1, DECK + 1))


def test_five_quiet_rounds_have_each_part_down_and_all_running() -> None:
    rounds = list(islice(quiet.schedule(3, 600), 5))
    assert Counter(one.down for one in rounds) == {
        frozenset(): 2,
        frozenset({Part.JOB}): 1,
        frozenset({Part.CONSUMERS}): 1,
        frozenset({Part.JOB, Part.CONSUMERS}): 1,
    }


def test_what_is_known_to_be_wrong_is_not_told_by_the_next_round() -> None:
    known = Wrong(lost={"a"}, repeated={"b"})
    now = Wrong(lost={"a", "c"}, repeated={"b"}, pulled_more={"d"})
    new = now.minus(known)
    assert str(new) == "1 lost (c), 1 got twice by a pull reader (d)"
    known.add(new)
    assert not now.minus(known)


class _Pulled:
    """What a pull reader is given."""

    def __init__(self, results: list[PullResult]) -> None:
        self.results = results
        self.offsets: list[int] = []

    def partitions(self, _topic: str) -> list[int]:
        return [0]

    def pull(self, _topic: str, _partition: int, offset: int, *_: int, wait_ms: int) -> PullResult:
        assert wait_ms
        self.offsets.append(offset)
        return self.results.pop(0)


def test_a_pull_reader_goes_on_where_its_database_says(tmp_path: Path) -> None:
    def message(offset: int, order: Order, name: bytes = b"") -> ReceivedMessage:
        return ReceivedMessage(TOPIC, 0, offset, None, order.value, [("cb-id", name)] if name else [])

    first = [message(0, Order(), b"tx-1"), message(1, Order(name="plain-1"))]
    results = [
        PullResult(PullStatus.FOUND, 2, 0, 2, first),
        PullResult(PullStatus.OFFSET_OVERFLOW_ONE, 2, 0, 2, []),
        PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, 0, 0, 0, []),
    ]
    pulled = _Pulled(results)
    for _ in range(3):  # each with a connection of its own, as after a death
        read_once(pulled, database(tmp_path, "client"))  # type: ignore[arg-type]  # all of a PullConsumer that it uses
    assert pulled.offsets == [0, 2, 2]
    rows = database(tmp_path, "client")
    assert rows.execute("SELECT id FROM pulled").fetchall() == [("tx-1",), ("plain-1",)]
    assert rows.execute("SELECT offset FROM positions").fetchall() == [(0,)]
