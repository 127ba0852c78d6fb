"""Fault runs with producers that work through two gateways: ``checkback torture --gateway`` does more of this."""

import shutil
import threading
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from pprint import pformat

import pytest
from typer.testing import CliRunner

from checkback import Message
from checkback.listener import LocalTransactionState
from checkback_cli.app import app
from torture.effects.strike import Watch
from torture.gateways import run as gateways_run
from torture.gateways.orders import NAME, OrderBooks, half_of
from torture.gateways.run import NOT_EXERCISED, GatewaysReport, torture_gateways
from torture.gateways.schedule import Fault, Kind, deck, schedule
from torture.gateways.sending import End, GatewayProducer, NoAnswerError
from torture.gateways.steps import Step
from torture.oracle import Judgement

SEED = 1
ORDER = Message("orders", b"book", None, [(NAME, b"http-1-0")])


class Scripted(GatewayProducer):
    """Gateways of which some do not answer."""

    def __init__(self, books: OrderBooks, folder: Path, silent: Sequence[int]) -> None:
        super().__init__(books, Watch(folder, Kind.HTTP), SEED)
        self.silent = silent
        self.posted: list[int] = []
        self.ended: list[tuple[int, str, End]] = []

    def _post(self, gateway: int, name: str, messages: Sequence[Message]) -> str:
        self.posted.append(gateway)
        if gateway in self.silent:
            raise NoAnswerError(name)
        return "body.code"

    def _say(self, gateway: int, topic: str, ticket: str, end: End) -> None:
        if gateway in self.silent:
            raise NoAnswerError(topic)
        self.ended.append((gateway, ticket, end))


def test_a_deck_strikes_clients_of_each_kind_at_each_step() -> None:
    cards = deck()
    assert {(step, kind) for fault, step, kind in cards if fault is Fault.CLIENT_KILLED} == {
        (step, kind) for step in Step for kind in Kind
    }
    assert {fault for fault, _, _ in cards} == set(Fault)


def test_a_seed_gives_the_same_rounds_and_each_deck_holds_all() -> None:
    size = len(deck())
    rounds = list(islice(schedule(3), 2 * size))
    assert rounds == list(islice(schedule(3), 2 * size))
    for first in (0, size):
        drawn = [(one.fault, one.step, one.kind) for one in rounds[first : first + size]]
        assert sorted(map(str, drawn)) == sorted(map(str, deck()))
    assert all(1 <= one.stopped_seconds <= 8 for one in rounds)
    assert {one.gateway for one in rounds} == {0, 1}


@pytest.mark.parametrize("silent", [0, 1])
def test_what_one_gateway_does_not_answer_is_sent_to_the_other(tmp_path: Path, silent: int) -> None:
    books = OrderBooks(tmp_path, threading.RLock())
    producer = Scripted(books, tmp_path, [silent])
    for _ in range(10):
        producer.commit(producer.prepare(ORDER))
    assert set(producer.posted) == {0, 1}
    assert producer.posted.count(1 - silent) == 10
    assert {(gateway, end) for gateway, _, end in producer.ended} == {(1 - silent, End.COMMIT)}
    books.close()


def test_it_gives_up_when_none_answers(tmp_path: Path) -> None:
    books = OrderBooks(tmp_path, threading.RLock())
    producer = Scripted(books, tmp_path, [0, 1])
    with pytest.raises(NoAnswerError):
        producer.prepare(ORDER)
    assert producer.posted in ([0, 1, 0], [1, 0, 1])
    books.close()


def test_a_check_is_answered_from_the_database(tmp_path: Path) -> None:
    books = OrderBooks(tmp_path, threading.RLock())
    books.commit(half_of("http-1-0", [ORDER]), [ORDER])
    books.under_way.add("http-1-1")
    assert [books.answer(name) for name in ("http-1-0", "http-1-0#2", "http-1-1", "", "http-1-2")] == [
        LocalTransactionState.COMMIT,
        LocalTransactionState.COMMIT,
        LocalTransactionState.UNKNOWN,
        LocalTransactionState.UNKNOWN,
        LocalTransactionState.ROLLBACK,
    ]
    books.close()


@pytest.mark.parametrize(
    ("report", "status", "said"),
    [
        (
            GatewaysReport(1, judgement=Judgement(5, 5), sent_again=3, twins=2),
            0,
            "2 of them have several half messages",
        ),
        (
            GatewaysReport(
                1, judgement=Judgement(5, 6, repeated=["a"]), sent_again=3, twice={"a": ["half 0:1", "half 0:4"]}
            ),
            1,
            "twice: a: half 0:1; half 0:4",
        ),
        (GatewaysReport(1, judgement=Judgement(5, 5), defect=NOT_EXERCISED), 1, "has not done what it is for"),
        (GatewaysReport(1, judgement=Judgement(5, 4, undecided=["a"]), sent_again=3), 75, "No verdict"),
    ],
)
def test_the_command_says_what_was_sent_again_and_what_was_delivered_twice(
    monkeypatch: pytest.MonkeyPatch, report: GatewaysReport, status: int, said: str
) -> None:
    asked: list[tuple[int, int | None]] = []

    def run(seed: int, rounds: int | None, _tell: object) -> GatewaysReport:
        asked.append((seed, rounds))
        return report

    monkeypatch.setattr(gateways_run, "torture_gateways", run)
    done = CliRunner().invoke(app, ["torture", "--gateway", "--rounds", "7", "--seed", "3"])
    assert (done.exit_code, asked) == (status, [(3, 7)])
    assert said in done.output


@pytest.mark.timeout(1800)
def test_nothing_is_lost_leaked_or_changed_whichever_gateway_is_asked() -> None:
    report = torture_gateways(SEED, 2, brief=True)
    # a second half message that a check commits is delivered, too: docs/gateway.md, "Sent again, twice delivered?"
    assert report.holds_but_for_twins, in_full(report)  # a text: pytest would cut the report short
    assert len(report.rounds) == 2
    assert report.judgement is not None
    assert report.judgement.expected > 100
    assert report.twins > 0
    assert not report.rejected
    shutil.rmtree(report.logs, ignore_errors=True)


def in_full(report: GatewaysReport) -> str:
    logs = sorted(Path(report.logs).glob("*.log")) if report.logs else []
    said = {str(log): log.read_text(errors="replace").splitlines()[-20:] for log in logs}
    shutil.rmtree(report.logs, ignore_errors=True)
    return pformat((report, said), width=120)
