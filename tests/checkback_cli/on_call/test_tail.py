"""Which records ``checkback tail`` shows, and its lines."""

from checkback.operations.story_events import StoryEvent, event_of
from checkback.wire.protocol import Action, HalfPosition, Source
from checkback_cli.on_call.tail import Fitting, event_object, for_people, line
from tests.kafka.made_records import TOPICS, Record, half, op


def event(record: Record) -> StoryEvent:
    found = event_of(record, TOPICS)
    assert found is not None
    return found


def test_an_op_is_named_after_its_half_message() -> None:
    fitting = Fitting(None, "orders")
    assert fitting.known(event(op(1, Action.COMMIT))) is None
    assert fitting.known(event(half())) is not None
    known = fitting.known(event(op(2, Action.COMMIT)))
    assert known is not None
    assert known.topic == "orders"


def test_other_groups_and_topics_are_left_out() -> None:
    assert Fitting("evil", None).known(event(half())) is None
    assert Fitting(None, "points").known(event(half())) is None
    assert Fitting("shop", "orders").known(event(half())) is not None


def test_so_many_half_messages_are_remembered() -> None:
    fitting = Fitting(None, "orders", most=2)
    for offset in range(3):
        fitting.known(event(half(at=HalfPosition(0, offset))))
    assert fitting.known(event(op(1, Action.COMMIT, at=HalfPosition(0, 0)))) is None
    assert fitting.known(event(op(1, Action.COMMIT, at=HalfPosition(0, 2)))) is not None


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    said = line(event(op(1_767_225_600_000, Action.ROLLBACK, Source.CHECK, value=b"no\nsuch\torder")))
    assert said == "00:00:00Z\trollback by check\ttx\tshop\t3:4711\tno\\nsuch\\torder"
    assert line(event(half(1_767_225_600_000))).endswith("\ttx\tshop\t3:4711")


def test_programs_get_what_is_not_empty() -> None:
    assert event_object(event(op(7, Action.COMMIT))) == {
        "time_ms": 7,
        "kind": "op",
        "place": "cb.op:3:7",
        "half": "3:4711",
        "transaction_id": "tx",
        "group": "shop",
        "action": "commit",
        "source": "producer",
        "what": "commit by producer",
    }


def test_on_a_terminal_no_word_is_broken_and_what_does_not_fit_stands_below() -> None:
    said = line(event(op(1_767_225_600_000, Action.ROLLBACK, Source.CHECK, value=b"no such order: " + b"why " * 20)))
    long = said.replace("\ttx\t", f"\t{'0123456789-' * 4}\t").replace("\tshop\t", f"\t{'g' * 70}\t")
    first, second, *rest = for_people(said, 80).splitlines()
    assert first.startswith("00:00:00Z  rollback by check     tx  shop  3:4711  no such order: why")
    assert second.startswith("               why why")
    assert all(len(one) <= 80 for one in (first, second, *rest))
    folded = for_people(long, 80).splitlines()
    assert "0123456789-" * 4 in folded[0]
    assert "g" * 70 in folded[1].split()
    assert for_people(line(event(half(1_767_225_600_000))), 80).count("\n") == 0
