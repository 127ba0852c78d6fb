"""A reader and its index."""

import pytest

from tests.status_page.transactions.scene import Set


@pytest.fixture
def it() -> Set:
    return Set()
