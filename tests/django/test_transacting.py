"""``transactional``: the order of its steps, and what would get the message out without the database."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import DatabaseError, Error, IntegrityError, connection, transaction
from django.test import override_settings

from checkback import CheckbackError, ConfigurationError, Message, RecordLostError
from checkback.django import Rollback, process, transactional
from checkback.django.testing import answer_of
from checkback.kafka.transport import Appended
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.django.databases import EACH, LEVELS
from tests.django.shop import DjangoShop

ORDER = Message("points", b"1")
EACH_ONE = pytest.mark.parametrize("kind", EACH, indirect=True)
SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)


@EACH_ONE
def test_a_block_sends_what_it_commits(shop: DjangoShop, recording: RecordingTransport) -> None:
    with transactional(ORDER) as half:
        shop.order(1)
        assert recording.transactions[0].action is None
        assert connection.in_atomic_block
    assert recording.committed == [ORDER]
    assert shop.rows() == [(half.transaction_id, "committed")]
    assert shop.sold(1)


@SQLITE
def test_a_decorated_function_sends_what_its_arguments_say(shop: DjangoShop, recording: RecordingTransport) -> None:
    @transactional(lambda number: [Message("points", b"%d" % number), Message("parcels", b"%d" % number)])
    def sell(number: int) -> int:
        shop.order(number)
        if number == 2:
            raise Rollback("sold out")
        return number

    assert [sell(1), sell(2), sell(number=3)] == [1, None, 3]
    assert [message.value for message in recording.committed] == [b"1", b"1", b"3", b"3"]
    assert [shop.sold(number) for number in (1, 2, 3)] == [True, False, True]


@SQLITE
def test_what_would_run_after_its_transaction_is_not_decorated(shop: DjangoShop, recording: RecordingTransport) -> None:
    async def pay() -> None: ...

    with pytest.raises(ConfigurationError, match="would run after"):
        transactional(lambda: ORDER)(pay)
    decorated = transactional(lambda: ORDER)(lambda: iter(number for number in "12"))
    with pytest.raises(TypeError, match="Nothing is committed"):
        decorated()
    assert recording.committed == []
    assert shop.rows() == []


@SQLITE
def test_a_rollback_rolls_both_back_and_goes_no_further(shop: DjangoShop, recording: RecordingTransport) -> None:
    with transactional(ORDER):
        shop.order(1)
        raise Rollback("changed my mind")
    assert recording.transactions[0].action is Action.ROLLBACK
    assert not shop.sold(1)


@SQLITE
def test_another_error_leaves_the_outcome_to_the_check(shop: DjangoShop, recording: RecordingTransport) -> None:
    with pytest.raises(LookupError), transactional(ORDER):  # noqa: PT012  (what is inside is the test)
        shop.order(1)
        raise LookupError
    (left,) = recording.transactions
    assert left.action is Action.UNKNOWN
    assert answer_of(left) == "rollback"
    assert not shop.sold(1)


@SQLITE
def test_what_django_would_roll_back_without_a_word_is_no_commit(
    shop: DjangoShop, recording: RecordingTransport
) -> None:
    with pytest.raises(RecordLostError, match=r"raise checkback\.django\.Rollback"), transactional(ORDER):  # noqa: PT012  (the test is what is inside)
        shop.order(1)
        transaction.set_rollback(True)
    assert recording.committed == []
    assert not shop.sold(1)


@EACH_ONE
def test_a_swallowed_error_of_a_model_is_no_commit(shop: DjangoShop, recording: RecordingTransport) -> None:
    """Django rolls all of it back, and the customer would hear that it is paid."""
    shop.order(1)
    with pytest.raises(RecordLostError, match="handled inside") as raised, transactional(ORDER):  # noqa: PT012  (likewise)
        shop.order(2)
        with suppress(DatabaseError):
            shop.order(1)
    assert isinstance(raised.value.__cause__, IntegrityError)
    assert recording.committed == []
    assert (shop.sold(2), shop.rows()) == (False, [])


@POSTGRESQL
def test_a_swallowed_error_of_a_statement_is_no_commit(shop: DjangoShop, recording: RecordingTransport) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, and no driver raises."""
    with pytest.raises(Error, match="current transaction is aborted"), transactional(ORDER):  # noqa: PT012  (what is inside is the test)
        shop.order(1)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column FROM checkback_transactions")
        except DatabaseError:
            pass
    assert recording.committed == []
    assert not shop.sold(1)


@EACH_ONE
def test_a_rollback_underneath_is_no_commit(shop: DjangoShop, recording: RecordingTransport) -> None:
    with pytest.raises(RecordLostError, match="without its record"), transactional(ORDER):  # noqa: PT012  (the test is what is inside)
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN")
        shop.order(1)
    assert recording.committed == []
    assert not shop.sold(1)


@EACH_ONE
def test_a_block_inside_an_atomic_is_refused_before_anything_is_written(
    shop: DjangoShop, recording: RecordingTransport
) -> None:
    with pytest.raises(ConfigurationError, match="Where it comes from ATOMIC_REQUESTS"):  # noqa: SIM117  (the test is what is inside)
        with transaction.atomic(), transactional(ORDER):
            shop.order(1)
    with pytest.raises(ConfigurationError, match="is inside a transaction"), transactional(ORDER):  # noqa: SIM117  (likewise)
        with transactional(ORDER):
            shop.order(1)
    assert len(recording.transactions) == 1
    assert recording.committed == []


@SQLITE
def test_a_connection_out_of_autocommit_is_refused(shop: DjangoShop, recording: RecordingTransport) -> None:
    connection.set_autocommit(False)
    with pytest.raises(ConfigurationError, match="out of Django's autocommit mode"), transactional(ORDER):
        pass
    connection.rollback()
    connection.set_autocommit(True)
    assert recording.transactions == []


@SQLITE
def test_what_cannot_be_a_block_is_refused(shop: DjangoShop, recording: RecordingTransport) -> None:
    with pytest.raises(ConfigurationError, match="for @transactional"), transactional(lambda: ORDER):
        pass
    used = transactional(ORDER)
    with used:
        pass
    with pytest.raises(ConfigurationError, match="entered before"), used:
        pass
    with pytest.raises(ConfigurationError, match="Checks do not ask database 'other'"), transactional(ORDER, "other"):
        pass
    with pytest.raises(ConfigurationError, match="no database 'elsewhere'"), transactional(ORDER, using="elsewhere"):
        pass


@pytest.mark.parametrize("kind", ["sqlite", *LEVELS], indirect=True)
def test_a_check_that_comes_first_blocks_the_block(shop: DjangoShop) -> None:
    class Checked(RecordingTransport):
        """The check comes as soon as the half message is there."""

        def write_half(self, record: object) -> Appended:
            appended = super().write_half(record)  # type: ignore[arg-type]  # a record
            assert answer_of(self.transactions[-1]) == "rollback"
            return appended

    from checkback.django.testing import recorded_messages  # noqa: PLC0415  (beside what it is for)

    with recorded_messages(Checked()) as recording:
        with pytest.raises(CheckbackError, match="came too late"), transactional(ORDER):
            shop.order(1)
        assert recording.committed == []
    assert not shop.sold(1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Producers that the process makes."""
    found: list[object] = []

    class Made:
        closed = 0

        def __init__(self) -> None:
            found.append(self)

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setattr(process, "_made", lambda _given: Made())
    yield found
    process._PROCESS.close()


def test_a_process_makes_one_producer_and_a_forked_child_its_own(made: list[object]) -> None:
    assert process.producer() is process.producer()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        own = process.producer() is not made[0] and not made[0].closed  # type: ignore[attr-defined]  # Made has it
        os.write(writing, b"%d" % own)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.close(writing)
    assert len(made) == 1
    process._PROCESS.close()
    assert made[0].closed == 1  # type: ignore[attr-defined]  # likewise
    process.producer()
    assert len(made) == 2


def test_other_settings_make_another_producer(made: list[object]) -> None:
    process.producer()
    with override_settings(CHECKBACK={"BOOTSTRAP_SERVERS": "elsewhere:9092", "GROUP": "shop"}):
        process.producer()
    assert len(made) == 2
