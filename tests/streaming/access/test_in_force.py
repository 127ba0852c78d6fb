"""The policy is fixed with the batch: run again, the batch has the one that it was begun with."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError
from checkback.wire.protocol import Topics
from conf.settings import AccessSettings
from streaming.access.policy_in_force import POLICY, PolicyFile, PolicyInForce, missing_secrets
from streaming.access.told import told_policy
from streaming.batch.kept_by_batch import refuse_torn
from streaming.folders import LocalFolder

OWN = Topics()
_NONE = "no policy"


class Run:
    """A run of the job on one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, policy: str, first_new: int) -> None:
        file = folder.parent / "access.toml"
        file.write_text(policy, encoding="utf-8")
        self._spark = spark
        self.told: list[tuple[int, bool]] = []
        """From which batch on, and whether there is a policy."""
        kept = PolicyFile(AccessSettings(policy=str(file) if policy else ""))
        self._force = PolicyInForce(spark, LocalFolder(folder), kept, first_new, self._tell)

    def _tell(self, batch: int, text: str) -> None:
        self.told.append((batch, bool(text)))

    def says(self, batch: int) -> str:
        """What a task of the batch says of group *shop* and topic *orders*."""
        self._force.before(batch)

        def heard(_: object) -> list[str]:
            policy = told_policy(OWN)
            return [_NONE if policy is None else policy.reason("shop", "orders")]

        (said,) = self._spark.sparkContext.parallelize([0], 1).mapPartitions(heard).collect()
        return str(said)


ALLOWS = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\n'
DENIES = '[accounts.shop]\ngroups = ["shop"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoint").mkdir()
    return tmp_path / "checkpoint"


def test_it_holds_from_the_first_batch_that_was_never_begun(spark: SparkSession, folder: Path) -> None:
    assert Run(spark, folder, "", 0).says(0) == _NONE
    assert list(folder.iterdir()) == [], "who has no policy has no files of it"
    # batch 1 was begun without one
    run = Run(spark, folder, DENIES, 2)
    assert run.says(1) == _NONE
    assert "does not name" in run.says(2)
    # and batch 2 with one; then comes another, then none
    run = Run(spark, folder, ALLOWS, 3)
    assert "does not name" in run.says(2)
    assert run.says(3) == ""
    assert run.told == [(2, True), (3, True)], "those who ask who has changed it"
    run = Run(spark, folder, "", 4)
    assert run.says(3) == ""
    assert run.says(4) == _NONE
    assert run.says(5) == _NONE
    assert run.told == [(3, True), (4, False)]


def test_what_a_start_wrote_for_a_batch_that_never_began_is_void(spark: SparkSession, folder: Path) -> None:
    Run(spark, folder, ALLOWS, 0).says(0)
    Run(spark, folder, DENIES, 7)  # an entry of the offset log was given up since
    run = Run(spark, folder, ALLOWS, 3)
    assert [run.says(batch) for batch in (3, 7, 8)] == ["", "", ""]


def test_a_torn_file_is_refused_where_kafka_has_a_part_of_the_batch(spark: SparkSession, folder: Path) -> None:
    for log, batch in (("offsets", 6), ("offsets", 7), ("commits", 6)):
        (folder / log).mkdir(exist_ok=True)
        (folder / log / str(batch)).touch()
    (folder / "checkback-access-5.json").write_bytes(b'{"accounts": {"sh')

    def torn(name: str) -> CheckpointMismatchError:
        return CheckpointMismatchError(f"{name} is torn")

    with pytest.raises(CheckpointMismatchError, match=r"checkback-access-5\.json is torn"):
        refuse_torn(LocalFolder(folder), POLICY, lambda batch: batch == 7, torn)
    refuse_torn(LocalFolder(folder), POLICY, lambda _batch: False, torn)
    assert "does not name" in Run(spark, folder, DENIES, 7).says(7), "never everything, because a file was torn"


def test_a_policy_needs_the_secrets_that_its_batch_was_begun_with(spark: SparkSession, folder: Path) -> None:
    secrets = folder.parent / "secrets.toml"
    secrets.write_text(f'shop-1 = "{"s" * 40}"', encoding="utf-8")
    (folder.parent / "access.toml").write_text('[accounts.shop]\nkeys = ["shop-1"]\n', encoding="utf-8")
    keyed = PolicyFile(AccessSettings(policy=str(folder.parent / "access.toml"), secrets=str(secrets)))
    PolicyInForce(spark, LocalFolder(folder), keyed, 3)

    def hindrance(batch: int, name: str = str(secrets)) -> str:
        return str(missing_secrets(LocalFolder(folder), name, batch) or "")

    assert (hindrance(2), hindrance(3)) == ("", "")
    assert "access.secrets has no secret of shop-1" in hindrance(3, "")
    secrets.write_text(f'shop-1 = "{"t" * 40}"', encoding="utf-8")
    assert "Batch 3 was begun" in hindrance(3)
    secrets.unlink()
    assert "shop-1" in hindrance(3)
    (folder / "checkback-access-3.json").write_bytes(b"{")
    assert hindrance(3) == "", "whoever looks for torn files finds it"
