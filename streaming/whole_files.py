"""The class with which Spark writes its checkpoint into an object store: ours, as no setting makes Spark's own do.

Why, and with which lines of Hadoop's and Spark's source: see docs/decisions/0034.
"""

from pathlib import Path

from streaming.java_classes import compiled

_CLASS = "checkback.WholeFiles"

OPTIONS = {
    "spark.sql.streaming.checkpointFileManagerClass": _CLASS,
    "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
    # Hadoop's own choice reads ahead, and in other threads: good for tables
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}
"""Of Spark, for a checkpoint in an object store; it is not safe without them."""
PATIENCE = {
    "spark.hadoop.fs.s3a.connection.timeout": "20s",
    "spark.hadoop.fs.s3a.connection.request.timeout": "30s",
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
}
"""Of a store that takes what it is sent, and says nothing: Hadoop's own are 200 s, 6 times 8 of them."""


def whole_files_jar() -> Path:
    """The jar with the class, made if need be.

    Raises:
        InstallationError: it cannot be made.
    """
    return compiled("WholeFiles", "writes checkpoints into an object store")
