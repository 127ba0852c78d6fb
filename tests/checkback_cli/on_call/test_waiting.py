"""What became of decided transactions, record by record."""

import json

import pytest

from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers
from checkback_cli.on_call.candidates import Candidate
from checkback_cli.on_call.waiting import Awaited
from tests.job_records import status_row
from tests.kafka.made_records import TOPICS, Record, parked, refused

HALF = HalfPosition(3, 4711)
OTHER = HalfPosition(3, 4712)


def one(half: HalfPosition = HALF, *, row: bool = True) -> Candidate:
    return Candidate("tx", "shop", "orders", half, 0, "", frozenset(), row=row, parked=not row)


def left(half: HalfPosition = HALF) -> Record:
    return Record(TOPICS.status, 0, 1, 5, str(half).encode(), None)


def awaited(*records: Record, action: Action = Action.COMMIT, row: bool = True) -> Awaited:
    made = Awaited([one(row=row)], action)
    for record in records:
        made.take(record, TOPICS)
    return made


@pytest.mark.parametrize(("action", "became"), [(Action.COMMIT, "committed"), (Action.ROLLBACK, "rolled back")])
def test_one_in_doubt_that_has_left_is_as_was_asked(action: Action, became: str) -> None:
    found = awaited(left(), action=action)
    assert found.became == {HALF: became}
    assert found.waiting == []


def test_others_do_not_count() -> None:
    row = status_row("tx", HALF, attempt=4)
    still = Record(TOPICS.status, 0, 1, 5, str(HALF).encode(), json.dumps(row).encode())
    found = awaited(left(OTHER), still, Record(TOPICS.status, 0, 1, 5, None, b"?"))
    assert [waiting.half for waiting in found.waiting] == [HALF]


@pytest.mark.parametrize("action", [Action.RESUME, Action.REDELIVER, Action.COMMIT])
def test_of_a_parked_one_the_job_says_what_became(action: Action) -> None:
    found = awaited(parked(5, (protocol.ENDED, b"committed, held")), action=action, row=False)
    assert found.became == {HALF: "committed, held"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_that_is_parked_meanwhile_waits_on(order: tuple[int, int]) -> None:
    records = (left(), parked(5, (protocol.REASON, b"too old")))
    found = awaited(*(records[index] for index in order))
    assert [waiting.half for waiting in found.waiting] == [HALF]
    found.take(parked(6, (protocol.ENDED, b"committed")), TOPICS)
    assert found.became == {HALF: "committed"}


def test_an_op_that_the_job_refuses_is_told() -> None:
    operators = op_headers("tx", "shop", HALF, Action.COMMIT, Source.OPERATOR)
    assert awaited(refused(5, "cb.op:3:7", "it contradicts", *operators)).refused == {HALF: "it contradicts"}
    producers = op_headers("tx", "shop", HALF, Action.COMMIT, Source.PRODUCER)
    assert awaited(refused(5, "cb.op:3:7", "it contradicts", *producers)).refused == {}


def test_of_one_that_no_list_has_the_job_writes_a_refusal_only() -> None:
    never_checked = one()._replace(row=False, parked=False)
    operators = op_headers("tx", "shop", HALF, Action.COMMIT, Source.OPERATOR)
    for refusal in (None, refused(5, "cb.op:3:7", "it contradicts", *operators)):
        found = Awaited([never_checked], Action.COMMIT)
        found.judged({HALF.partition + 1})
        assert found.unlisted == {HALF.partition}
        if refusal is not None:
            found.take(refusal, TOPICS)
        found.judged({HALF.partition})
        assert found.waiting == []
        assert (found.became, found.refused) == (
            ({}, {HALF: "it contradicts"}) if refusal else ({HALF: "committed"}, {})
        )
