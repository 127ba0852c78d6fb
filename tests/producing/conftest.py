"""A producer on each of the two clients."""

from collections.abc import Iterator

import pytest

from checkback import (
    TransactionProducer,
)
from checkback.kafka.connecting import TransportName
from tests.place import Place
from tests.producing.producing import Recorder, listener


@pytest.fixture
def ran() -> Recorder:
    return Recorder()


@pytest.fixture(params=TransportName)
def transport(request: pytest.FixtureRequest) -> TransportName:
    """Everything here holds of both."""
    return TransportName(request.param)


@pytest.fixture
def producer(transport: TransportName, place: Place, ran: Recorder) -> Iterator[TransactionProducer]:
    with TransactionProducer(
        place.bootstrap_servers, "orders", listener(ran), topics=place.topics, transport=transport
    ) as made:
        yield made
