"""Records as a job writes them, for the commands."""

from collections.abc import Iterator

import pytest

from tests.job_records import JobRecords
from tests.place import Place, find_by_environment


@pytest.fixture
def written(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobRecords]:
    find_by_environment(place, monkeypatch)
    with JobRecords(place) as records:
        yield records
