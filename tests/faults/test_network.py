"""Fault runs with the network: ``checkback torture --network`` does more of this."""

import shutil
from itertools import islice
from pathlib import Path
from pprint import pformat

import pytest

from checkback import Message
from torture.network.books import Books, Told
from torture.network.proxy import Api, Deed
from torture.network.run import DECK, DISTURBANCES, NetworkReport, schedule, torture_network
from torture.oracle import Body

OF_TRANSACTIONS = {api for api in Api if api not in {Api.METADATA, Api.OFFSET_COMMIT, Api.FIND_COORDINATOR}}


def test_a_deck_has_each_request_of_a_transaction_arrive_late() -> None:
    assert {api for card in DECK for api, deed in card if deed is Deed.HOLD_AND_CUT} == OF_TRANSACTIONS


def test_each_round_can_be_done_alone() -> None:
    rounds = list(islice(schedule(3), 2 * len(DECK)))
    assert {one.card for one in rounds[: len(DECK)]} == set(DECK)
    for one in rounds:
        alone = next(schedule(one.seed))
        assert (alone.seed, alone.card) == (one.seed, one.card)


@pytest.mark.parametrize(
    ("told", "readable", "verdict", "torn"),
    [
        (Told.DELIVERED, {"t#1": 1, "t#2": 1}, "0 lost, 0 repeated, 0 leaked, 0 changed", []),
        (Told.DELIVERED, {"t#1": 1}, "1 lost, 0 repeated, 0 leaked, 0 changed", ["t"]),
        (Told.DELIVERED, {"t#1": 2, "t#2": 1}, "0 lost, 1 repeated, 0 leaked, 0 changed", []),
        (Told.LEFT_TO_JOB, {}, "0 lost, 0 repeated, 0 leaked, 0 changed", []),
        (Told.LEFT_TO_JOB, {"t#2": 1}, "0 lost, 1 repeated, 0 leaked, 0 changed", ["t"]),
        (Told.ROLLED_BACK, {"t#1": 1, "t#2": 1}, "0 lost, 0 repeated, 2 leaked, 0 changed", []),
        (Told.DELIVERED, {"t#1": 1, "t#2": 1, "other": 1}, "0 lost, 0 repeated, 1 leaked, 0 changed", []),
        (Told.OPEN, {"t#1": 1}, "0 lost, 0 repeated, 0 leaked, 0 changed", ["t"]),
        (Told.UNKNOWN, {}, "0 lost, 0 repeated, 0 leaked, 0 changed, 2 not decided yet", []),
    ],
)
def test_what_producers_were_told_is_held_against_what_is_readable(
    told: Told, readable: dict[str, int], verdict: str, torn: list[str]
) -> None:
    books = Books()
    books.begin("t", [Message("orders", b"v"), Message("invoices", b"v")])
    if told is not Told.OPEN:
        books.end("t", told)
    topics = {"t#2": "invoices"}
    copies = {name: [Body(topics.get(name, "orders"), None, b"v", ())] * count for name, count in readable.items()}
    assert (str(books.judge(copies)), books.torn(copies)) == (verdict, torn)


@pytest.mark.timeout(1800)
def test_nothing_is_lost_repeated_leaked_or_torn_whatever_arrives_late() -> None:
    report = torture_network(1, 3)
    assert report.holds, in_full(report)  # a text: pytest would cut the report short
    assert report.disturbed >= 3 * DISTURBANCES
    assert report.judgement is not None
    assert report.judgement.expected > 200
    assert not report.torn


def in_full(report: NetworkReport) -> str:
    logs = sorted(Path(report.logs).glob("*.log")) if report.logs else []
    last_lines = {str(log): log.read_text(errors="replace").splitlines()[-20:] for log in logs}
    shutil.rmtree(report.logs, ignore_errors=True)
    return pformat((report, report.again, last_lines), width=120)
