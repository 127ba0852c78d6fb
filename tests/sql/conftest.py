"""What several tests of the SDK need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.sql.databases import ALL, DJANGO, engine_of
from tests.sql.django_faces import django_engine
from tests.sql.mariadb import installed
from tests.sql.points import Points
from tests.sql.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A real PostgreSQL, started when the first test asks for it."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb() -> Iterator[URL]:
    """A real MariaDB, likewise."""
    with installed() as server:
        yield server.url


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest) -> str:
    """Database and isolation level; a test that is for some of them only parametrizes this itself."""
    return str(request.param)


@pytest.fixture
def points(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Points]:
    if kind in DJANGO:
        with django_engine(kind, request, tmp_path) as engine:
            yield Points(engine, django=True)
        return
    engine = engine_of(kind, request, tmp_path)
    yield Points(engine)
    engine.dispose()
