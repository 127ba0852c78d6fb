"""Records as a job writes them, for the commands."""

import os
from collections.abc import Iterator

import pytest

from tests.job_records import JobRecords
from tests.place import Place


@pytest.fixture
def written(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobRecords]:
    for variable in [name for name in os.environ if name.upper().startswith("CHECKBACK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", place.topics.prefix)
    monkeypatch.setenv("CHECKBACK_KAFKA__BOOTSTRAP_SERVERS", place.bootstrap_servers)
    monkeypatch.setenv("CHECKBACK_JOB__CHECKPOINT", str(place.folder / "checkpoint"))
    monkeypatch.setenv("COLUMNS", "300")
    with JobRecords(place) as records:
        yield records
