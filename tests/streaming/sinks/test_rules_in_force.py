"""Changed rules hold from the first batch that has never been begun."""

from pathlib import Path

import pytest

from checkback.exceptions import ConfigurationError
from streaming.sinks import publisher_of
from streaming.sinks.folders import LocalFolder
from streaming.sinks.routes import Routes
from streaming.sinks.rules_in_force import RulesInForce
from streaming.steps import Step
from tests.streaming.sinks.driver import Crash, CrashError, Query, messages
from tests.tables import Table

NONE, LAKE, FILES = Routes(), Routes.of([("*", ["lake"])]), Routes.of([("*", ["files"])])


class Job:
    """Starts on a checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def log(self, name: str, *batches: int) -> None:
        (self._folder / name).mkdir(exist_ok=True)
        for batch in batches:
            (self._folder / name / str(batch)).touch()

    def start(self, wanted: Routes, *known: str) -> RulesInForce:
        rules = RulesInForce(LocalFolder(self._folder))
        rules.take(wanted, set(known))
        return rules


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_job_without_rules_writes_none_down(job: Job, tmp_path: Path) -> None:
    rules = job.start(NONE)
    assert (rules.any(), rules.of_batch(0), [*tmp_path.iterdir()]) == (False, NONE, [])


def test_without_rules_there_is_nothing_to_publish(query: Query, other: Table) -> None:
    settings = query.settings({"tables": {other.name: other.settings}})
    assert publisher_of(settings, query.spark) is None
    assert sorted(path.name for path in query.folder.iterdir()) == ["commits", "metadata", "offsets"]


def test_rules_hold_from_the_first_batch_of_a_new_checkpoint(job: Job) -> None:
    assert job.start(LAKE, "lake").of_batch(0) == LAKE


def test_a_batch_that_was_begun_keeps_its_rules(job: Job) -> None:
    job.start(LAKE, "lake")
    job.log("offsets", 0, 1)
    job.log("commits", 0)
    for _ in range(2):  # a second start changes nothing
        rules = job.start(FILES, "lake", "files")
        assert [rules.of_batch(batch) for batch in (0, 1, 2, 3)] == [LAKE, LAKE, FILES, FILES]
    job.log("offsets", 2)
    rules = job.start(NONE, "files")
    assert [rules.of_batch(batch) for batch in (2, 3)] == [FILES, NONE]
    assert rules.any()


def test_rules_changed_twice_between_batches(job: Job) -> None:
    job.start(LAKE, "lake")
    job.start(FILES, "files")
    assert job.start(FILES, "files").of_batch(0) == FILES


def test_rules_on_a_checkpoint_from_before_there_were_any(job: Job) -> None:
    job.log("offsets", 0, 1)
    job.log("commits", 0)
    rules = job.start(LAKE, "lake")
    assert [rules.of_batch(batch) for batch in (1, 2)] == [NONE, LAKE]


def test_a_destination_that_a_batch_still_needs_must_be_there(job: Job) -> None:
    job.start(LAKE, "lake")
    job.log("offsets", 0)
    with pytest.raises(ConfigurationError, match=r"Batch 0 was begun when messages went to lake.*sinks\.tables"):
        job.start(NONE)
    job.log("commits", 0)
    assert job.start(NONE).of_batch(1) == NONE


def test_a_message_of_a_batch_cut_off_is_not_lost_when_the_rules_change(query: Query, other: Table) -> None:
    topic = query.place.real_topic
    with pytest.raises(CrashError):
        query.driver(other.sinks(), Crash(Step.BEFORE_PUBLISH)).run(0, messages(topic, 1))
    # Kafka has batch 0, without the message: under the new rules it would be skipped there
    driver = query.driver({"rules": [], "tables": {other.name: other.settings}})
    driver.run(0, messages(topic, 1))
    query.commit(0)
    driver.run(1, messages(topic, 2))
    assert [row["id"] for row in other.read()] == ["tx-1"]
    assert [record.value for record in query.place.read(topic)] == [b"2"]
