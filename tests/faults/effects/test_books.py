"""What the harness reads of both databases while others write to them."""

import time
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import insert

from checkback import HalfMessage, Message
from checkback.consumer import ReceivedMessage
from checkback.wire.protocol import HalfPosition
from tests import tables
from torture.effects.booking import Booking
from torture.effects.books import Books
from torture.effects.database import EFFECTS, database_of, in_file
from torture.effects.orders import Order
from torture.effects.shop import GROUP
from torture.effects.strike import Watch
from torture.sent import Database


def test_a_partition_has_gone_on_when_an_order_of_after_the_fault_has_its_effect(tmp_path: Path) -> None:
    effects = in_file(tmp_path)
    effects.prepare()
    books = Books(tmp_path, effects)
    books.read()  # the shop has not made its file yet
    shop, listener = Database(tmp_path, GROUP), Booking(tmp_path, effects.url, Watch(tmp_path, ""), with_inbox=True)

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


def test_what_is_committed_late_is_read_nevertheless(tmp_path: Path, database: tables.Database) -> None:
    """In PostgreSQL a row's number is older than its commit."""
    database.run(f"GRANT CREATE ON DATABASE postgres TO {database.user}")
    url = f"postgresql://{database.user}:{quote(database.password)}@127.0.0.1:{database.port}/postgres"
    with database_of(tmp_path, url) as effects:
        effects.prepare()
        books, engine = Books(tmp_path, effects), effects.engine()
        row = {"partition": 0, "key": "k", "place": 0, "before": None, "tries": 0, "at": 0.0}
        with engine.begin() as late:
            late.execute(insert(EFFECTS).values(id="late", **row))
            with engine.begin() as other:
                other.execute(insert(EFFECTS).values(id="other", **row))
            books.read()
            assert books.effects == {"other": 1}
        books.read()
        books.read(whole=True)
        assert books.effects == {"other": 1, "late": 1}
        assert [(effect.number, effect.id) for effect in books.booked] == [(2, "other"), (1, "late")]
        engine.dispose()
        effects.leave(None)
