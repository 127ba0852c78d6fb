"""What Spark's file manager does on a real S3: of two who make one file one is refused, and what fails is raised."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from checkback.exceptions import CheckbackError, ConfigurationError, JobFailedError, JobStoppedError
from checkback.local.kafka import free_port
from conf import Settings
from streaming.checkpoint.claimed_names import file_manager, make, refuse_without_conditions
from streaming.checkpoint.folder import Checkpoint
from streaming.folders import folder_at
from streaming.session import WHOLE_FILES
from streaming.stops import explained
from tests.cluster.without_conditions import without_conditions
from torture.local_s3 import LocalS3

_ROUNDS = 10
_NEW = False
"""As Spark says it: whether a file may be replaced."""
_CLASS = "spark.sql.streaming.checkpointFileManagerClass"


class Stores(NamedTuple):
    """Spark, and folders in S3 as it knows them."""

    spark: SparkSession
    good: str = "s3a://checkback/folder"
    forgetful: str = "s3a://forgetful/folder"
    """Of a store that does not know conditions."""
    lossy: str = "s3a://lossy/folder"
    """Of one whose first answer for each file is lost."""
    lost: Sequence[int] = ()
    """Statuses of those answers."""

    def path(self, name: str) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        return jvm.org.apache.hadoop.fs.Path(name if "://" in name else f"{self.good}/{name}")

    def make(self, name: str, content: bytes) -> None:
        path = self.path(name)
        make(file_manager(self.spark, str(path.getParent().toString())), path, content)


@pytest.fixture(scope="module")
def stores(spark: SparkSession) -> Iterator[Stores]:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    lost: list[int] = []
    with (
        LocalS3() as s3,
        LocalS3(lets_in_everybody=True) as other,
        without_conditions(other.port) as port,
        without_conditions(other.port, lost) as losing,
    ):
        for bucket in ("forgetful", "lossy"):
            (other.folder / "objects" / bucket).mkdir()
        key = s3.environment
        known = {"access.key": key["AWS_ACCESS_KEY_ID"], "secret.key": key["AWS_SECRET_ACCESS_KEY"]}
        given = {
            "checkback": (s3.port, known),
            "missing": (s3.port, known),
            "wrong-key": (s3.port, {**known, "secret.key": "another"}),
            "no-key": (s3.port, {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"}),
            "forgetful": (port, known),
            "lossy": (losing, known),
            "away": (free_port(), {**known, "retry.limit": "1", "attempts.maximum": "1"}),
        }
        for option, value in {**s3.options, **WHOLE_FILES}.items():
            hadoop.set(option.removeprefix("spark.hadoop."), value)
        for bucket, (where, options) in given.items():
            for option, value in {**options, "endpoint": f"http://127.0.0.1:{where}"}.items():
                hadoop.set(f"fs.s3a.bucket.{bucket}.{option}", value)
        before = spark.conf.get(_CLASS)
        spark.conf.set(_CLASS, WHOLE_FILES[_CLASS])
        yield Stores(spark, lost=lost)
        spark.conf.set(_CLASS, before or "")


def test_of_two_who_make_one_file_one_is_refused(stores: Stores) -> None:
    manager = file_manager(stores.spark, stores.good)
    for number in range(_ROUNDS):
        made: list[bytes] = []
        refused: list[str] = []
        both = threading.Barrier(2)

        path = stores.path(str(number))

        def send(content: bytes, path: Any = path, both: threading.Barrier = both) -> None:
            stream = manager.createAtomic(path, _NEW)
            stream.write(content)
            both.wait()
            try:
                stream.close()
                made.append(content)  # noqa: B023  (they end with the round)
            except Py4JJavaError as error:
                refused.append(str(error.java_exception.toString()))  # noqa: B023  (likewise)

        threads = [threading.Thread(target=send, args=(content,)) for content in (b"one", b"two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [Checkpoint(stores.spark, stores.good).read(str(number))] == made
        assert len(refused) == 1
        assert refused[0].startswith("org.apache.hadoop.fs.FileAlreadyExistsException: "), refused  # as Spark awaits it


def test_a_file_whose_answer_was_lost_is_its_writers_and_nobody_elses(stores: Stores) -> None:
    """The client sends the file again, and the store refuses that: its own first one is there."""
    name = f"{stores.lossy}/0"
    stores.make(name, b"the same")
    assert stores.lost == [200]
    with pytest.raises(Py4JJavaError) as refused:
        stores.make(name, b"the same")  # as another job writes it, such as the entry of a batch in the commit log
    assert str(refused.value.java_exception.toString()).startswith("org.apache.hadoop.fs.FileAlreadyExistsException: ")
    assert Checkpoint(stores.spark, stores.lossy).read("0") == b"the same"


def test_a_file_that_is_given_up_is_not_there_and_one_that_may_be_replaced_is(stores: Stores) -> None:
    manager, path = file_manager(stores.spark, stores.good), stores.path("given-up")
    stream = manager.createAtomic(path, _NEW)
    stream.write(b"half")
    stream.cancel()
    stream.close()
    assert not manager.exists(path)
    for content in (b"one", b"two"):
        stream = manager.createAtomic(path, not _NEW)
        stream.write(content)
        stream.close()
        assert Checkpoint(stores.spark, stores.good).read("given-up") == content


def test_our_own_files_are_replaced_and_removed_without_a_rename(stores: Stores) -> None:
    checkpoint, folder = Checkpoint(stores.spark, f"{stores.good}/own"), folder_at(stores.spark, f"{stores.good}/own")
    for content in (b"one", b"two"):
        checkpoint.write("a", content)
        folder.write("b", content)
        assert (checkpoint.read("a"), folder.read("b")) == (content, content)
    assert folder.children() == ["a", "b"]
    checkpoint.remove("a")
    folder.remove("b")
    folder.remove("b")
    assert folder.children() == []


def test_a_store_that_refuses_the_second_is_taken_and_nothing_stays_there(stores: Stores) -> None:
    refuse_without_conditions(stores.spark, f"{stores.good}/tried")
    assert Checkpoint(stores.spark, f"{stores.good}/tried").names("") == []


def test_a_store_that_makes_an_object_twice_is_refused(stores: Stores) -> None:
    with pytest.raises(ConfigurationError, match="makes an object that is there already a second time"):
        refuse_without_conditions(stores.spark, stores.forgetful)


@pytest.mark.parametrize(
    ("bucket", "kind", "said"),
    [
        ("missing", ConfigurationError, "the store has no bucket as s3a://missing/x names it"),
        ("wrong-key", JobStoppedError, "refuses the job's credentials"),
        ("no-key", JobStoppedError, "refuses the job's credentials"),
        ("away", JobFailedError, "does not answer"),
    ],
)
def test_what_is_wrong_with_a_store_is_one_sentence(
    stores: Stores, bucket: str, kind: type[CheckbackError], said: str
) -> None:
    settings = Settings.model_validate({"job": {"checkpoint": f"s3a://{bucket}/x"}})
    checkpoint = Checkpoint(stores.spark, settings.job.checkpoint)
    for write in (stores.make, checkpoint.write):
        with pytest.raises(Py4JJavaError) as raised:
            write(f"s3a://{bucket}/x/file" if write == stores.make else "file", b"x")
        found = explained(raised.value, settings)
        assert type(found) is kind, str(raised.value)
        assert said in str(found)
        assert "\n" not in str(found)
