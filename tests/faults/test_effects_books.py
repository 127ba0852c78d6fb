"""What the harness reads of both databases while others write to them."""

import time
from pathlib import Path

from checkback import HalfMessage, Message
from checkback.consumer import ReceivedMessage
from checkback.protocol import HalfPosition
from torture.effects.booking import Booking, make_tables
from torture.effects.books import Books
from torture.effects.orders import Order
from torture.effects.shop import GROUP
from torture.effects.strike import Watch
from torture.sent import Database


def test_a_partition_has_gone_on_when_an_order_of_after_the_fault_has_its_effect(tmp_path: Path) -> None:
    books = Books(tmp_path)
    make_tables(tmp_path)
    books.read()  # the shop has not made its file yet
    shop, listener = Database(tmp_path, GROUP), Booking(tmp_path, Watch(tmp_path, ""), with_inbox=True)

    def order(name: str) -> None:
        shop.commit(HalfMessage(name, "sales", b"{}", None, (), HalfPosition(0, 0)), [Message("sales", b"{}")])

    def book(name: str, partition: int) -> None:
        listener(ReceivedMessage("sales", partition, 0, None, Order().value, [("cb-id", name.encode())]))

    order("before")
    order("left")
    since = time.time()
    book("before", 0)
    assert not books.went_on(since, [0])
    order("after")
    book("after", 0)
    assert books.went_on(since, [0])
    assert not books.went_on(since, [0, 1])
    assert books.without_effect() == {"left"}
    book("left", 1)
    assert not books.went_on(since, [0, 1])
    assert books.effects == {"before": 1, "after": 1, "left": 1}
    shop.close()
