"""Where a checkpoint is to be, and the cluster that writes to it: what can be known of both without Spark."""

import socket

from checkback.exceptions import ConfigurationError, JobFailedError
from streaming.batch.stores import bucket_of, in_store, scheme_of

_OLD_NAMES_OF_S3 = frozenset({"s3", "s3n"})
_NO_RENAME = frozenset({"gs", "oss", "cosn", "obs", "swift", "wasb", "wasbs"})
_CONNECT_SECONDS = 5.0


def on_this_machine(master: str) -> bool:
    """Whether Spark's executors see this machine's folders."""
    return master.startswith("local")


def refuse_unfit_place(checkpoint: str, master: str) -> None:
    """Whether all who write to the checkpoint can do so where it is to be.

    Raises:
        ConfigurationError: it is a folder of this machine, and executors are on others; or it is in a store whose
            renames take several steps, of which a crash may leave some, and that we know no other way with.
    """
    scheme = scheme_of(checkpoint)
    if scheme.lower() in _OLD_NAMES_OF_S3 or scheme != scheme.lower():
        raise ConfigurationError(
            f"job.checkpoint: Spark knows no {scheme}://: write the scheme in lower case, and for S3 s3a://BUCKET/FOLDER."
        )
    if in_store(checkpoint) and not bucket_of(checkpoint):
        raise ConfigurationError(
            "job.checkpoint does not name a bucket: write s3a://BUCKET/FOLDER, BUCKET of letters, digits, '.' and '-' "
            "only, as Hadoop reads it, and with no key before it (AWS_ACCESS_KEY_ID in the environment is for that)."
        )
    if scheme in _NO_RENAME:
        raise ConfigurationError(
            f"job.checkpoint: {scheme} cannot rename a file in one step, and what a crash has left of a rename would "
            "be taken for the whole. Name a folder in HDFS (hdfs://), in S3 (s3a://), or one that is mounted (file://)."
        )
    if not scheme and not on_this_machine(master):
        raise ConfigurationError(
            f"job.checkpoint is '{checkpoint}', a folder of this machine, and with job.master {master} executors write "
            "to it from others: name one that all reach, hdfs://HOST:PORT/FOLDER, s3a://BUCKET/FOLDER, or "
            "file:///FOLDER where it is mounted on all of them."
        )


def refuse_silent_master(master: str) -> None:
    """Whether Spark's own master answers, of several any: Spark itself tries for a minute, and then says little.

    Raises:
        JobFailedError: none does.
    """
    if not master.startswith("spark://"):
        return
    said = ""
    for one in master.removeprefix("spark://").split(","):
        host, _, port = one.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return
        except (OSError, ValueError, OverflowError) as error:
            said = str(error)
    raise JobFailedError(
        f"Spark's master does not answer at {master} ({said}): is job.master its address, as its page names it, and "
        "does it run?"
    )
