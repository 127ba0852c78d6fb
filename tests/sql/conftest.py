"""What several tests of the SDK need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.sql.databases import POSTGRESQL, SQLITE, engine_of
from tests.sql.points import Points
from tests.sql.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A real PostgreSQL, started when the first test asks for it."""
    with running_postgres() as url:
        yield url


@pytest.fixture(params=[*SQLITE, *POSTGRESQL])
def kind(request: pytest.FixtureRequest) -> str:
    """Database and isolation level; a test that is for some of them only parametrizes this itself."""
    return str(request.param)


@pytest.fixture
def points(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Points]:
    engine = engine_of(kind, request, tmp_path)
    yield Points(engine)
    engine.dispose()
