"""A forwarder with what it needs."""

from collections.abc import Iterator

import pytest

from streaming.later.forwarding import Forwarder
from tests.place import Place
from tests.streaming.later.scene import moving


@pytest.fixture
def forwarder(place: Place) -> Iterator[Forwarder]:
    with moving(place) as made:
        yield made
