"""A sink to be refused."""

import pytest

from tests.place import Place
from tests.streaming.refusals.scene import LIMIT, Sink


@pytest.fixture
def sink(place: Place) -> Sink:
    return Sink(place)


@pytest.fixture
def narrow(sink: Sink) -> str:
    return sink.topic("narrow", max_message_bytes=str(LIMIT))
