"""The fake settler of these tests does what the real one does, as far as they rely on it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from checkback.exceptions import ProtocolError
from checkback.kafka.librdkafka.settling import Settler
from checkback.wire.lanes import new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import HalfPosition
from tests.checkers.settling.fakes import FakeSettler
from tests.kafka.lanes import opened
from tests.place import Place

SOME = Ledger([HalfPosition(3, 81), HalfPosition(0, 7)])
Deliver = Callable[[str, Ledger], None]


@pytest.fixture(params=["fake", "real"])
def settler(request: pytest.FixtureRequest, place: Place) -> Iterator[tuple[Any, Deliver]]:
    if request.param == "fake":
        fake = FakeSettler()
        yield fake, fake.ledgers.__setitem__
        return

    def deliver(lane: str, ledger: Ledger) -> None:
        with closing(opened(place, lane)) as writer:
            writer.deliver([], ledger)

    yield Settler(place.bootstrap_servers, place.topics, {}), deliver


def test_what_was_read_stays_true_and_of_what_is_no_lane_nobody_can_know(settler: tuple[Any, Deliver]) -> None:
    asked, deliver = settler
    lane, empty = new_lane(), new_lane()
    deliver(lane, SOME)
    deliver(empty, Ledger())
    for _ in range(2):
        assert asked.settle("orders", lane) == SOME
        assert asked.settle("orders", empty) == Ledger()
        assert asked.settle("orders", new_lane()) is None
    with pytest.raises(ProtocolError, match="cb-lane"):
        asked.settle("orders", "checkback-claim")
