"""Changed settings hold from the first batch that was never begun, whatever happens at a start."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkback.exceptions import CheckpointMismatchError, ConfigurationError
from conf import Settings
from state import RULES_VERSION, Policy
from streaming.folders import LocalFolder
from streaming.settings_in_force import BatchSettings, SettingsInForce
from streaming.stateful import policies
from streaming.stateful.policies import policy_of
from streaming.tables.routes import Routes
from tests.state.records import Driver, Half, Op

LAKE, FILES = ([{"topic": "*", "to": [name]}] for name in ("lake", "files"))
CLASS = "decides:Decides"


class Job:
    """Starts on a checkpoint folder; what Spark and the tasks leave behind is written by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.in_kafka = True
        """Of the unfinished batch."""
        self.lacks = False

    def log(self, name: str, *batches: int) -> None:
        (self._folder / name).mkdir(exist_ok=True)
        for batch in batches:
            (self._folder / name / str(batch)).touch()

    def give_up(self, batch: int) -> None:
        (self._folder / "offsets" / str(batch)).unlink()

    def files(self) -> list[str]:
        return sorted(found.name for found in self._folder.iterdir() if found.is_file())

    def hindrance(self, batch: int) -> CheckpointMismatchError | None:
        """What else keeps a batch from being run as it was begun."""
        return CheckpointMismatchError(f"batch {batch} lacks what it needs") if self.lacks else None

    def start(
        self, routes: Any = (), tables: tuple[str, ...] = ("lake", "files"), **transactions: Any
    ) -> SettingsInForce:
        given = {name: {"kind": "parquet", "path": f"/{name}"} for name in ("lake", "files")}
        sinks = {"rules": list(routes), "tables": given}
        wanted = BatchSettings.of(Settings.model_validate({"transactions": transactions, "sinks": sinks}))
        rules = SettingsInForce(LocalFolder(self._folder), self.hindrance)
        rules.take(wanted, {name: f"/{name}" for name in tables}, lambda _batch: self.in_kafka)
        return rules


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module of a class of the user's."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    module = folder / "decides.py"
    module.write_text("class Decides:\n    def decide(self, message):\n        return 'park'\n")
    monkeypatch.syspath_prepend(str(folder))
    _as_in_a_new_process()
    yield module
    _as_in_a_new_process()


def _as_in_a_new_process() -> None:
    sys.modules.pop("decides", None)
    policies._load.cache_clear()
    policies._read.cache_clear()


def check_max(rules: SettingsInForce, *batches: int) -> list[int]:
    return [rules.policies().of_batch(batch).check_max for batch in batches]


def tables(rules: SettingsInForce, *batches: int) -> list[list[str]]:
    return [rules.routes_of(batch).tables() for batch in batches]


def test_the_default_settings_are_the_default_policy() -> None:
    assert policy_of(Settings().transactions) == Policy()


def test_settings_hold_from_the_first_batch_of_a_new_checkpoint(job: Job) -> None:
    rules = job.start(LAKE, check_max=3)
    assert (check_max(rules, 0, 9), tables(rules, 0, 9)) == ([3, 3], [["lake"]] * 2)


def test_a_batch_that_was_begun_keeps_all_its_rules(job: Job) -> None:
    job.start(LAKE, check_max=1)
    job.log("offsets", 0, 1)
    job.log("commits", 0)
    for _ in range(2):  # a second start changes nothing
        rules = job.start(FILES, check_max=2)
        assert check_max(rules, 1, 2, 3) == [1, 2, 2]
        assert tables(rules, 0, 1, 2, 3) == [["lake"], ["lake"], ["files"], ["files"]]
    job.log("offsets", 2)
    job.log("commits", 1)
    rules = job.start(check_max=3)
    assert (check_max(rules, 2, 3), tables(rules, 2, 3)) == ([2, 3], [["files"], []])
    assert rules.any_routes()


def test_a_batch_that_was_begun_keeps_its_rules_though_nothing_of_it_is_in_kafka(job: Job) -> None:
    job.start(check_max=1)
    job.log("offsets", 0)
    job.in_kafka = False
    assert check_max(job.start(check_max=2), 0, 1) == [1, 2]


def test_settings_changed_there_and_back_before_a_batch_is_begun(job: Job) -> None:
    job.start(check_max=1)
    job.start(check_max=2)
    assert check_max(job.start(check_max=1), 0) == [1]
    job.log("offsets", 0)
    job.start(check_max=2)
    assert check_max(job.start(check_max=1), 0, 1) == [1, 1]
    job.log("offsets", 1)
    job.log("commits", 0)
    assert check_max(job.start(check_max=2), 1, 2) == [1, 2]


def test_what_was_written_for_a_batch_after_one_that_was_given_up_is_void(job: Job) -> None:
    job.start(check_max=1)
    job.log("offsets", 0)
    job.start(check_max=2)  # holds from batch 1
    job.give_up(0)
    rules = job.start(check_max=3)
    assert check_max(rules, 0, 1, 2) == [3, 3, 3]
    assert job.files() == ["checkback-rules-0.json"]


def test_a_batch_that_was_finished_is_not_evaluated_under_any(job: Job) -> None:
    job.start()
    job.log("offsets", 0)
    job.log("commits", 0)
    rules = job.start()
    with pytest.raises(Exception, match="Spark runs batch 0 again"):
        rules.policies().of_batch(0)


def test_rules_that_nobody_can_need_any_more_are_removed(job: Job) -> None:
    for batch in range(4):
        job.start(check_max=batch)
        job.log("offsets", batch)
        job.log("commits", batch)
    for batch in (0, 1):  # Spark keeps the last hundred
        job.give_up(batch)
    rules = job.start(check_max=9)
    assert job.files() == [f"checkback-rules-{batch}.json" for batch in (2, 3, 4)]
    assert check_max(rules, 4) == [9]


def test_a_start_that_dies_while_it_writes_leaves_the_old_rules(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.start(check_max=1)
    job.log("offsets", 0)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        job.start(check_max=2)
    monkeypatch.undo()
    assert check_max(job.start(check_max=1), 0, 1) == [1, 1]


def test_a_destination_that_a_batch_in_kafka_still_needs_must_be_there(job: Job) -> None:
    job.start(LAKE)
    job.log("offsets", 0)
    with pytest.raises(ConfigurationError, match=r"Batch 0 was begun when messages went to lake.*sinks\.tables"):
        job.start(tables=())
    job.log("commits", 0)
    assert tables(job.start(tables=()), 1) == [[]]


def test_a_destination_may_go_when_the_last_batch_was_only_begun(job: Job) -> None:
    job.start(LAKE)
    job.log("offsets", 0)
    job.in_kafka = False
    assert tables(job.start(tables=()), 0, 1) == [[], []]


def test_what_a_batch_needs_elsewhere_may_go_when_it_was_only_begun(job: Job) -> None:
    job.start(check_max=1)
    job.log("offsets", 0)
    job.lacks = True
    with pytest.raises(CheckpointMismatchError, match="batch 0 lacks what it needs"):
        job.start(check_max=2)
    job.in_kafka = False
    rules = job.start(check_max=2)
    assert (rules.first_new, check_max(rules, 0)) == (0, [2])


def test_a_class_that_was_edited_is_refused_while_a_batch_needs_the_old_one(job: Job, decides: Path) -> None:
    job.start(on_exhausted=CLASS)
    job.log("offsets", 0)
    before = decides.read_text()
    decides.write_text(before.replace("park", "commit"))
    for choice in (CLASS, "park"):  # nor is it any help to name another
        _as_in_a_new_process()
        with pytest.raises(ConfigurationError, match=f"batch 0 was begun with another {CLASS}.*put the old class back"):
            job.start(on_exhausted=choice)
    decides.unlink()
    _as_in_a_new_process()
    with pytest.raises(ConfigurationError, match=f"batch 0 was begun with another {CLASS}"):
        job.start(on_exhausted="park")
    decides.write_text(before)
    _as_in_a_new_process()
    rules = job.start(on_exhausted="park")  # the old one is there again: it finishes its batch
    assert rules.policies().of_batch(0).on_exhausted == policies.on_exhausted(CLASS)
    assert rules.policies().of_batch(1).on_exhausted == Policy().on_exhausted


def test_a_class_may_be_edited_when_the_last_batch_was_only_begun(job: Job, decides: Path) -> None:
    job.start(on_exhausted=CLASS)
    old = job.start(on_exhausted=CLASS).of_batch(0)
    job.log("offsets", 0)
    job.in_kafka = False  # as a job that was told to stop leaves it
    decides.write_text(decides.read_text().replace("park", "commit"))
    _as_in_a_new_process()
    rules = job.start(on_exhausted=CLASS)
    assert rules.of_batch(0).listener != old.listener
    job.in_kafka = True
    assert job.start(on_exhausted=CLASS).of_batch(0) == rules.of_batch(0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": RULES_VERSION + 1, "transactions": {"of": "another form"}}, rf"\(rules {RULES_VERSION + 1}, this"),
        ({"version": 1}, r"\(rules 1, this one"),
        ({"transactions": {"unknown": 1}}, "cannot be read"),
        ({"transactions": [1]}, "cannot be read"),
    ],
)
def test_rules_of_another_version_are_refused_while_a_batch_needs_them(
    job: Job, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    job.start(LAKE)
    file = tmp_path / "checkback-rules-0.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    job.log("offsets", 0)
    with pytest.raises(CheckpointMismatchError, match=f"Batch 0 was begun by another version.*{said}"):
        job.start(LAKE)
    job.in_kafka = False
    assert check_max(job.start(LAKE, check_max=7), 0, 1) == [7, 7]


def test_a_torn_file_is_no_rules(job: Job, tmp_path: Path) -> None:
    job.start()
    (tmp_path / "checkback-rules-0.json").write_bytes(b"")
    assert check_max(job.start(check_max=7), 0) == [7]  # no batch was begun under what is lost
    (tmp_path / "checkback-rules-0.json").write_bytes(b"{")
    job.log("offsets", 0)
    with pytest.raises(CheckpointMismatchError, match="rules that cannot be read"):
        job.start()


def test_files_of_the_old_form_are_read(job: Job, tmp_path: Path) -> None:
    (tmp_path / "checkback-rules-0.json").write_text(json.dumps([["*", ["lake"]]]))
    job.log("offsets", 0, 1)
    job.log("commits", 0)
    said = rf"another version of Checkback \(rules 1, this one has {RULES_VERSION}\)"
    with pytest.raises(CheckpointMismatchError, match=said):
        job.start(FILES)
    job.log("commits", 1)
    assert tables(job.start(FILES), 1, 2) == [["lake"], ["files"]]


def test_a_checkpoint_from_before_there_were_any_rules(job: Job) -> None:
    job.log("offsets", 0)
    with pytest.raises(CheckpointMismatchError, match="another version of Checkback"):
        job.start()
    job.in_kafka = False
    assert check_max(job.start(check_max=5), 0, 1) == [5, 5]


def test_rules_are_read_as_they_were_written(decides: Path) -> None:
    transactions = {"on_exhausted": CLASS, "timeout": "1500ms", "check_max": 0, "age_limit": "1h"}
    tables = {"lake": {"kind": "parquet", "path": "/lake"}}
    given = {"transactions": transactions, "sinks": {"rules": LAKE, "tables": tables}}
    rules = BatchSettings.of(Settings.model_validate(given))
    assert decides.name == "decides.py"
    assert (len(rules.listener), rules.routes) == (64, Routes.of([("*", ["lake"])]))
    assert BatchSettings.read(rules.written()) == rules


def test_what_is_delivered_is_counted_so_that_kafka_has_the_progress_of_what_tables_get() -> None:
    said = Driver(Policy()).step(0, Half(), Op())
    assert (len(said.delivered), said.counts["committed"]) == (1, 1)
