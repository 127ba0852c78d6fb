"""The listener of a fault run with consumers, and death at its steps."""

import multiprocessing
import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from checkback.consumer import ConsumeResult, ReceivedMessage
from tests.place import wait_until
from torture.effects.booking import Booking
from torture.effects.database import in_file
from torture.effects.orders import ALWAYS, Order
from torture.effects.steps import Step
from torture.effects.strike import Deed, LostAnswerError, Strike, Watch, give, release, struck, withdraw

_SPAWN = multiprocessing.get_context("spawn")
_NAME = "consumer"


def message(order: Order, tries: int = 0, offset: int = 7) -> ReceivedMessage:
    name = b"tx-%d" % offset
    return ReceivedMessage("sales", 0, offset, b"key", order.value, [("cb-id", name)], 0, tries)


def effects(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "effects.db")) as database:
        return int(database.execute("SELECT count(*) FROM effects").fetchone()[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    in_file(tmp_path).prepare()
    return tmp_path


def booking(folder: Path, *, with_inbox: bool = True) -> Booking:
    return Booking(folder, in_file(folder).url, Watch(folder, _NAME), with_inbox=with_inbox)


def book(folder: Path, order: Order) -> None:
    booking(folder)(message(order))


class KilledError(BaseException):
    """In place of death."""


def dies(folder: Path, order: Order, monkeypatch: pytest.MonkeyPatch) -> bool:
    def kill(pid: int, number: int) -> None:
        raise KilledError(pid, number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", kill)
        try:
            book(folder, order)
        except KilledError as killed:
            return killed.args == (os.getpid(), signal.SIGKILL)
    return False


def test_twice_through_the_inbox_is_once_and_without_it_twice(folder: Path) -> None:
    for with_inbox, after in ((True, 1), (True, 1), (False, 2), (False, 3)):
        assert booking(folder, with_inbox=with_inbox)(message(Order())) is ConsumeResult.SUCCESS
        assert effects(folder) == after


def test_what_is_to_come_later_or_raises_leaves_nothing_behind(folder: Path) -> None:
    listener = booking(folder)
    assert listener(message(Order(later=1))) is ConsumeResult.LATER
    with pytest.raises(RuntimeError, match="wants the listener to raise"):
        listener(message(Order(raises=1)))
    assert effects(folder) == 0
    assert listener(message(Order(later=1), tries=1)) is ConsumeResult.SUCCESS
    assert effects(folder) == 1


def test_an_effect_says_after_which_one_of_its_key_it_came(folder: Path) -> None:
    listener = booking(folder)
    for offset in (7, 12, 9):
        listener(message(Order(), offset=offset))
    with closing(sqlite3.connect(folder / "effects.db")) as database:
        found = database.execute("SELECT place, before FROM effects ORDER BY number").fetchall()
    assert found == [(7, None), (12, 7), (9, 12)]


def test_whose_answer_is_lost_has_its_effect_and_is_tried_again(folder: Path) -> None:
    give(folder, Strike(Step.DATABASE_COMMITTED, number=1, deed=Deed.FAILS))
    listener = booking(folder)
    with pytest.raises(LostAnswerError):
        listener(message(Order()))
    assert listener(message(Order(), tries=1)) is ConsumeResult.SUCCESS
    assert effects(folder) == 1


def test_who_is_held_goes_on_when_it_is_released(folder: Path) -> None:
    strike = Strike(Step.COMMITTING, number=1, deed=Deed.HELD)
    give(folder, strike)
    thread = threading.Thread(target=book, args=(folder, Order()))
    thread.start()
    wait_until(lambda: struck(folder, strike) == os.getpid(), "the strike")
    assert effects(folder) == 0
    release(folder, strike)
    thread.join(60)
    assert effects(folder) == 1


def test_an_order_kills_as_many_as_it_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [dies(folder, Order(deaths=2), monkeypatch) for _ in range(3)] == [True, True, False]
    assert effects(folder) == 1


@pytest.mark.parametrize(("step", "after"), [(Step.BOOKED, 0), (Step.DATABASE_COMMITTED, 1)])
def test_a_strike_is_for_its_step_and_for_one(
    folder: Path, step: Step, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike(step, number=1, who=_NAME)
    give(folder, strike)
    assert dies(folder, Order(), monkeypatch)
    assert struck(folder, strike) == os.getpid()
    assert effects(folder) == after
    assert not dies(folder, Order(), monkeypatch)
    assert effects(folder) == 1


def test_death_is_death(folder: Path) -> None:
    give(folder, Strike(Step.INBOX_ROW, number=1))
    process = _SPAWN.Process(target=book, args=(folder, Order()))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert effects(folder) == 0


@pytest.mark.parametrize(
    "strike",
    [
        Strike(Step.STORING, number=1),
        Strike(Step.BOOKED, number=1, who="another"),
        Strike(Step.BOOKED, number=1, after=2),
    ],
)
def test_a_strike_for_others_does_nothing(folder: Path, strike: Strike, monkeypatch: pytest.MonkeyPatch) -> None:
    give(folder, strike)
    assert not dies(folder, Order(), monkeypatch)
    assert struck(folder, strike) is None
    withdraw(folder)
    assert dies(folder, Order(deaths=ALWAYS), monkeypatch)
