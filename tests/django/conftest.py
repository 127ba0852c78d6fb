"""What several tests of what works on Django's connections need."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import connections

from checkback.django.testing import recorded_messages
from checkback.testing import RecordingTransport
from tests.django.databases import EACH, settings_of
from tests.django.shop import DjangoShop, drop_tables, in_place, make_tables
from tests.sql.conftest import mariadb, postgres

__all__ = ["mariadb", "postgres"]  # fixtures


@pytest.fixture(params=EACH)
def kind(request: pytest.FixtureRequest) -> str:
    """Database and isolation level; a test that is for some of them only parametrizes this itself."""
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DjangoShop]:
    """A shop in a database of its own, which is ``default`` meanwhile."""
    with in_place("default", settings_of(kind, request, tmp_path)):
        drop_tables("default")
        make_tables("default")
        yield DjangoShop()


@pytest.fixture
def other(shop: DjangoShop, tmp_path: Path) -> Iterator[None]:
    """A second database beside it."""
    with ExitStack() as stack:
        stack.enter_context(
            in_place("other", {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.db")})
        )
        make_tables("other")
        yield


@pytest.fixture
def recording() -> Iterator[RecordingTransport]:
    with recorded_messages() as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    yield
    connections.close_all()
