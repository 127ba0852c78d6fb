import pytest

from tests.gateway.http.served import Served


@pytest.fixture
def served() -> Served:
    """Without accounts."""
    return Served()
