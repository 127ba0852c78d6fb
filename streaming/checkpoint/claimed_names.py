"""Whether an object store refuses the second of two who send one name: tried at the start, not believed."""

import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError

_UNKNOWN = ("AWSUnsupportedFeatureException", "AWSBadRequestException")
"""What hadoop-aws makes of an answer that the store does not know the condition."""


def refuse_without_conditions(spark: SparkSession, folder: str) -> None:
    """Have Spark's own file manager make one file twice, in a store that can be written to.

    Raises:
        ConfigurationError: the store takes it twice, or does not know the condition.
    """
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{folder}/.checkback-{uuid.uuid4().hex}")
    manager = file_manager(spark, folder)
    try:
        for content in (b"first", b"second"):
            make(manager, path, content)
    except Py4JJavaError as error:
        said = str(error.java_exception.toString())
        if "FileAlreadyExistsException" in said:
            return
        if not any(name in said for name in _UNKNOWN):
            raise
    finally:
        manager.delete(path)
    raise ConfigurationError(
        f"job.checkpoint: the store of {folder} makes an object that is there already a second time (a PUT with "
        "'If-None-Match: *' has to be refused), so that a job that was taken over could write over what its successor "
        "has written: use one with conditional writes, as Amazon S3 has them, or a folder in HDFS or a mounted one."
    )


def file_manager(spark: SparkSession, folder: str) -> Any:
    """That of Spark's logs in this folder."""
    jvm: Any = spark.sparkContext._jvm
    configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001  (with the session's options)
    companion = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
    return getattr(companion, "MODULE$").create(jvm.org.apache.hadoop.fs.Path(folder), configuration)


def make(manager: Any, path: Any, content: bytes) -> None:
    """Make a file as Spark makes the entry of a batch.

    Raises:
        Py4JJavaError: something has its name, or it cannot be written.
    """
    stream = manager.createAtomic(path, False)  # noqa: FBT003  (Spark's own: overwrite)
    try:
        stream.write(content)
        stream.close()
    except BaseException:
        stream.cancel()
        raise
