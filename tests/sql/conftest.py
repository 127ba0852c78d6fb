"""What several tests of the SDK need."""

from collections.abc import Iterator

import pytest
from sqlalchemy import URL

from tests.sql.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A real PostgreSQL, started when the first test asks for it."""
    with running_postgres() as url:
        yield url
