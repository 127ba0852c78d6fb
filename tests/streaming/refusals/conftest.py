"""A sink to be refused."""

import pytest

from tests.place import Place
from tests.streaming.refusals.scene import Sink


@pytest.fixture
def sink(place: Place) -> Sink:
    return Sink(place)
