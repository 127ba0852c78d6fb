"""What producers say they have sent."""

import time
from pathlib import Path

import pytest

from checkback import HalfMessage, Message
from checkback.exceptions import TransactionBlockedError
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from torture.oracle import Body, imprint
from torture.sent import Database


def half(name: str) -> HalfMessage:
    return HalfMessage(name, "orders", b"value", None, (), HalfPosition(0, 0))


def question(name: str) -> CheckRequest:
    return CheckRequest(name, "shop", "orders", None, b"value", (), HalfPosition(0, 0), 1, 15, 0)


def test_what_was_committed_is_found_again_by_message(tmp_path: Path) -> None:
    database, began = Database(tmp_path, "shop"), time.time()
    large = bytes(500_000)
    database.commit(half("a"), [Message("orders", large, b"key", [("trace", b"1"), ("trace", b"2")])])
    database.commit(half("b"), [Message("orders", None, b"key"), Message("invoices", b"")])
    assert database.sent_to(["orders"]) == {
        "a": Body("orders", b"key", imprint(large), (("trace", b"1"), ("trace", b"2"))),
        "b#1": Body("orders", b"key", None, ()),
    }
    assert sorted(database.sent_after(began, most=5)) == ["a", "b#1", "b#2"]
    assert database.sent_after(time.time(), most=5) == []
    database.close()


def test_nothing_is_sent_that_a_check_was_told_to_roll_back(tmp_path: Path) -> None:
    database = Database(tmp_path, "shop")
    database.log.check_local_transaction(question("a"))
    with pytest.raises(TransactionBlockedError):
        database.commit(half("a"), [Message("orders", b"value")])
    assert database.sent_to(["orders"]) == {}
    database.close()
