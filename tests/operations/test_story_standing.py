"""How a transaction stands, judged by its events."""

import pytest

from checkback.operations.in_doubt import InDoubt
from checkback.operations.story_events import StoryEvent, delivered, event_of
from checkback.operations.story_standing import Stand, decision, standing
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source
from tests.kafka.made_records import HALF, TOPICS, Record, half, op, parked, refused

LATER = "where it is to arrive at 2026-01-01 00:00:00 at the earliest"
ROW = InDoubt("tx", "shop", "orders", HALF, 3, 15, 1_000, 5_000, "unknown", 9_000)
COPY = HalfPosition(3, 5_000)


def events(*records: Record) -> list[StoryEvent]:
    found = [delivered(one) if one.topic == "orders" else event_of(one, TOPICS) for one in records]
    return [one for one in found if one is not None]


def check(time_ms: int) -> Record:
    headers = ((protocol.ID, b"tx"), (protocol.HALF, str(HALF).encode()), (protocol.ATTEMPT, b"1"))
    return Record(TOPICS.check, 0, 1, time_ms, b"tx", b"", headers)


def arrived(name: bytes = b"tx", offset: int = 1) -> Record:
    return Record("orders", 0, offset, 9_000, b"k", b"value", ((protocol.ID, name),))


def stands(*records: Record, row: InDoubt | None = None) -> tuple[Stand, str]:
    return standing(events(*records), row)


HELD = half(
    6_000, (protocol.ACTION, b"commit"), (protocol.HELD, b"1 6000 3:4711"), (protocol.REASON, b"no topic"), at=COPY
)


@pytest.mark.parametrize(
    ("records", "row", "expected"),
    [
        ([half()], None, (Stand.OPEN, "no op decides it, and nobody was asked yet")),
        ([half(), check(2)], ROW, (Stand.IN_DOUBT, "attempt 3 of 15, last answer unknown")),
        ([], ROW, (Stand.IN_DOUBT, "attempt 3 of 15, last answer unknown")),
        ([], ROW._replace(last_answer="", attempt=1), (Stand.IN_DOUBT, "attempt 1 of 15, not answered yet")),
        (
            [],
            ROW._replace(last_answer="unreachable", attempt=1, answered_ms=6_000, misses=7),
            (Stand.IN_DOUBT, "not asked yet: nobody reachable, 7 tries"),
        ),
        (
            [half(), op(2, Action.COMMIT)],
            None,
            (Stand.COMMITTED, "by producer; not found in its topic: not delivered yet, or no longer kept there"),
        ),
        ([half(), op(2, Action.COMMIT), arrived()], None, (Stand.DELIVERED, "orders:0:1")),
        ([half(), op(2, Action.ROLLBACK, Source.CHECK)], None, (Stand.ROLLED_BACK, "by check")),
        (
            [half(), op(2, Action.COMMIT, Source.OPERATOR)],
            ROW,
            (Stand.COMMITTED, "by operator; the job has not taken that in yet"),
        ),
        ([half(), parked(3, (protocol.REASON, b"too old"))], None, (Stand.PARKED, "too old")),
        (
            [half(), parked(3, (protocol.REASON, b"x")), op(4, Action.ROLLBACK, Source.OPERATOR)],
            None,
            (Stand.PARKED, "the operator's rollback waits for the job"),
        ),
        (
            [half(), parked(3, (protocol.REASON, b"x")), parked(5, (protocol.ENDED, b"rolled back"))],
            None,
            (Stand.ROLLED_BACK, "after it was parked"),
        ),
        (
            [half(), parked(3, (protocol.REASON, b"x")), parked(5, (protocol.ENDED, b"abandoned"))],
            None,
            (Stand.ABANDONED, "after it was parked"),
        ),
        (
            [half(), parked(3, (protocol.REASON, b"x")), parked(5, (protocol.ENDED, b"resumed"))],
            ROW,
            (Stand.IN_DOUBT, "attempt 3 of 15, last answer unknown"),
        ),
        ([half(), op(2, Action.COMMIT), HELD], None, (Stand.HELD, "no topic")),
        ([half(), refused(2, "cb.half:3:4711", "cb-id is missing")], None, (Stand.REJECTED, "cb-id is missing")),
        (
            [half(1, (protocol.ACTION, b"commit"), (protocol.DELIVER_AT, b"1767225600000"))],
            None,
            (
                Stand.COMMITTED,
                f"it carries its own decision; not found in its topic, {LATER}",
            ),
        ),
        (
            [half(), check(2)],
            None,
            (Stand.UNKNOWN, "it was checked and is no longer in doubt, and no decision was found"),
        ),
        ([check(2)], None, (Stand.UNKNOWN, "its half message is gone from the half topic")),
    ],
)
def test_how_it_stands(records: list[Record], row: InDoubt | None, expected: tuple[Stand, str]) -> None:
    assert stands(*records, row=row) == expected


def test_some_of_several_messages() -> None:
    several = half(1, (protocol.MESSAGES, b"2"))
    found = stands(several, op(2, Action.COMMIT), arrived(b"tx#1"), HELD)
    assert found == (Stand.HELD, "1 of 2 messages delivered; no topic")
    assert stands(several, arrived(b"tx#1"), arrived(b"tx#2", 2))[0] is Stand.DELIVERED
    assert stands(several, op(2, Action.COMMIT), arrived(b"tx#1"), arrived(b"tx#1", 2))[0] is Stand.COMMITTED


def test_the_first_decision_in_the_order_of_the_op_topic_counts() -> None:
    later, first = op(2, Action.COMMIT, offset=9), op(3, Action.ROLLBACK, Source.CHECK, offset=8)
    found = decision(events(half(), later, first))
    assert found is not None
    assert found.place == "cb.op:3:8"


def test_one_that_the_job_has_refused_decides_nothing() -> None:
    first, second = op(2, Action.COMMIT, offset=8), op(3, Action.ROLLBACK, Source.CHECK, offset=9)
    found = decision(
        events(half(), first, second, refused(4, "cb.op:3:8", "its check immunity is over", *first.headers))
    )
    assert found is not None
    assert found.action == Action.ROLLBACK


@pytest.mark.parametrize("names", [("tx", "evil"), ("other", "shop")])
def test_one_of_another_transaction_decides_nothing(names: tuple[str, str]) -> None:
    assert decision(events(half(), op(2, Action.COMMIT, names=names))) is None


def test_neither_do_answers_without_a_verdict() -> None:
    unknown, unreachable = op(2, Action.UNKNOWN, Source.CHECK), op(3, Action.UNREACHABLE, Source.CHECK, offset=8)
    assert decision(events(half(), unknown, unreachable)) is None
