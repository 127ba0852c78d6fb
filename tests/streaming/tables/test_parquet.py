"""What is Parquet's own: the folder of a batch names its destination."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import CheckbackError, ConfigurationError, DestinationError
from streaming.batch.batch import Batch
from streaming.folders import MARK, LocalFolder
from streaming.tables.parquet_files import ParquetFilesDestination
from streaming.tables.publishing import try_staging
from tests.place import Place
from tests.streaming.tables.driver import publisher
from tests.tables import parquet_table


def test_two_destinations_in_one_folder_keep_both_batches(tmp_path: Path) -> None:
    """Under names that the settings cannot compare, such as two mounts of one file system."""
    (tmp_path / MARK).mkdir()
    for name in ("first", "second"):
        (tmp_path / "_staged" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [name]}), tmp_path / "_staged" / name / "rows.parquet")
        batch = Batch("query", 0, "", every_partition_writes=False)
        for _ in range(2):
            ParquetFilesDestination(name, LocalFolder(tmp_path)).publish(batch, f"_staged/{name}", ["rows.parquet"])
    assert sorted(row["id"] for row in parquet_table(tmp_path).read()) == ["first", "second"]


def test_one_folder_under_two_names_is_refused(tmp_path: Path) -> None:
    """Also where the settings cannot compare them: two names of a name node, two mounts."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "folder")
    roots = {name: LocalFolder(tmp_path / name) for name in ("folder", "other")}
    with pytest.raises(ConfigurationError, match="folder and other are the same folder"):
        try_staging("folder", roots["folder"], {"other": roots["other"]})
    try_staging("folder", roots["folder"], {"other": LocalFolder(tmp_path)})


@pytest.mark.parametrize(
    ("path", "kind"), [("foo://bar/x", ConfigurationError), ("hdfs://no-such-host.invalid/x", DestinationError)]
)
def test_a_folder_that_cannot_be_opened_names_its_table(
    offline: Place, spark: SparkSession, path: str, kind: type[CheckbackError]
) -> None:
    """No waiting cures a scheme that is not known; a name server that is down comes back."""
    sinks = {"rules": [{"topic": "*", "to": ["files"]}], "tables": {"files": {"kind": "parquet", "path": path}}}
    with pytest.raises(kind, match=r"^sinks\.tables\.files: the folder"):
        publisher(offline.settings(sinks=sinks), spark)


def test_a_batch_that_an_earlier_version_has_moved_into_place_is_not_moved_again(tmp_path: Path) -> None:
    for folder in ("checkback_batch=query-0000000007", MARK):
        (tmp_path / folder).mkdir()
    batch = Batch("query", 7, "", every_partition_writes=False)
    ParquetFilesDestination("files", LocalFolder(tmp_path)).publish(batch, "_staged", ["rows.parquet"])
    assert {path.name for path in tmp_path.iterdir()} == {"checkback_batch=query-0000000007", MARK}


def test_a_batch_lists_no_folder_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = ParquetFilesDestination("files", LocalFolder(tmp_path))
    destination.prepare()
    monkeypatch.setattr(LocalFolder, "children", None)
    for number in (0, 1, 1):
        (tmp_path / "_staged").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [str(number)]}), tmp_path / "_staged" / "rows.parquet")
        batch = Batch("query", number, "", every_partition_writes=False)
        destination.publish(batch, "_staged", ["rows.parquet"])
    assert sorted(row["id"] for row in parquet_table(tmp_path).read()) == ["0", "1"]
