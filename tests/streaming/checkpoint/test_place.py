"""Where a checkpoint cannot be, and a master that is not there, are named before Spark is started."""

import socket

import pytest

from checkback.exceptions import ConfigurationError, JobFailedError
from streaming.checkpoint.place import refuse_silent_master, refuse_unfit_place


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://m"])
def test_a_folder_of_the_drivers_machine_is_none_for_a_cluster(master: str) -> None:
    with pytest.raises(ConfigurationError, match="a folder of this machine"):
        refuse_unfit_place(master=master, checkpoint="/var/lib/checkback/checkpoint")


@pytest.mark.parametrize(
    ("master", "checkpoint"),
    [
        ("local[*]", "checkpoint"),
        ("local-cluster[2,1,1024]", "/tmp/checkpoint"),  # noqa: S108  (nothing is made there)
        *(("spark://m:7077", "hdfs://names:8020/checkback"), ("spark://m:7077", "file:///mounted/everywhere")),
        *(("local[*]", "s3a://bucket/checkback"), ("spark://m:7077", "s3a://bucket/checkback")),
        ("k8s://https://m", "abfss://store@account.dfs.core.windows.net/checkback"),
    ],
)
def test_a_folder_that_all_reach_is_taken(master: str, checkpoint: str) -> None:
    refuse_unfit_place(master=master, checkpoint=checkpoint)


@pytest.mark.parametrize("master", ["local[*]", "spark://m:7077"])
@pytest.mark.parametrize("scheme", ["oss", "gs"])
def test_a_store_that_cannot_rename_in_one_step_is_refused(master: str, scheme: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{scheme} cannot rename a file in one step"):
        refuse_unfit_place(master=master, checkpoint=f"{scheme}://bucket/checkback")


@pytest.mark.parametrize("scheme", ["s3", "s3n", "S3", "S3A", "HDFS"])
def test_a_name_of_s3_that_spark_does_not_know_is_put_right(scheme: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no {scheme}://: .* s3a://BUCKET/FOLDER"):
        refuse_unfit_place(master="local[*]", checkpoint=f"{scheme}://bucket/checkback")


@pytest.mark.parametrize(
    "path", ["s3a:///folder", "s3a:bucket/folder", "s3a://my_bucket/folder", "s3a://a:key@bucket/x"]
)
def test_what_names_no_bucket_is_refused_and_no_key_is_shown(path: str) -> None:
    with pytest.raises(ConfigurationError, match="does not name a bucket") as said:
        refuse_unfit_place(master="local[*]", checkpoint=path)
    assert "key@" not in str(said.value)
    refuse_unfit_place(master="local[*]", checkpoint="s3a://my-bucket")


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        refuse_silent_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    refuse_silent_master("local[*]")
    for master in (f"spark://127.0.0.1:{port}", "spark://127.0.0.1", "spark://127.0.0.1:99999999"):
        with pytest.raises(JobFailedError, match="Spark's master does not answer at spark://127"):
            refuse_silent_master(master)
