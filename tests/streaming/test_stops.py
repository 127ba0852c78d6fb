"""What people are told when the query ends: one sentence, whatever Spark printed."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import StreamingQueryException

from checkback.exceptions import (
    CheckbackError,
    CheckpointMismatchError,
    ConfigurationError,
    JobFailedError,
    JobStoppedError,
    KafkaLostError,
    NotAllowedError,
    ProgressError,
    StateFormatError,
    TakenOverError,
)
from conf import Settings
from streaming.stops import _KNOWN_ERRORS, explained

# As they were seen; the lines after the first are what people are spared.
_PROXY = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error "
    "occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the Python "
    "Proxy. Return Message: Traceback (most recent call last):\n  File x, line 1\n{}\n at org.apache.spark.A(B:1)"
)
_SETTINGS = Settings.model_validate({"kafka": {"topic_prefix": "cb."}, "job": {"checkpoint": "/data/checkpoint"}})


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("checkback.exceptions.ProgressError: As it was said.", ProgressError, "As it was said."),
        ("checkback.exceptions.TakenOverError: Another job.", TakenOverError, "Another job."),
        ("checkback.exceptions.StateFormatError: Version 9.", JobStoppedError, "Version 9."),
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data", CheckpointMismatchError, "cb.half or cb.op"),
        ("Cannot fetch offset 5. \nSome data may have been lost because", CheckpointMismatchError, "are gone"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x", JobStoppedError, "lost one of the"),
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [cb.op]",
            NotAllowedError,
            "allow the job one of its resources: grant its user Read on the topic cb.op, Write on the topic cb.op, ",
        ),
        (
            'KafkaError{code=GROUP_AUTHORIZATION_FAILED,val=30,str="checkback-x: Group authorization failed"}',
            NotAllowedError,
            "grant its user Read on groups that begin with 'checkback-'. (",
        ),
        (
            "KafkaError{code=TRANSACTIONAL_ID_AUTHORIZATION_FAILED,val=53}",
            NotAllowedError,
            "grant its user Write on transactional ids that begin with 'checkback-'. (",
        ),
        ("KafkaError{code=_AUTHENTICATION,val=-169}", JobStoppedError, "credentials"),
        ("common.config.ConfigException: Invalid value x", ConfigurationError, "kafka.security: Invalid value x"),
        ("java.io.IOException: No space left on device", JobFailedError, "/data/checkpoint"),
        (
            "java.net.ConnectException: Call From vm/127.0.0.1 to names:8020 failed on connection exception: refused",
            JobFailedError,
            "HDFS, where the checkpoint /data/checkpoint is",
        ),
        ("SafeModeException: Cannot create file. Name node is in safe mode.", JobFailedError, "takes nothing"),
        ("RemoteException: File /x could only be written to 0 of the 1 minReplication nodes.", JobFailedError, "HDFS"),
        (
            "java.nio.file.AccessDeniedException: s3a://b/x: getFileStatus on s3a://b/x: Forbidden:InvalidAccessKeyId",
            JobStoppedError,
            "refuses the job's credentials (AccessDeniedException; ",
        ),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/x': getFileStatus on s3a://b/x: NoSuchBucket",
            ConfigurationError,
            "has no bucket as /data/checkpoint names it",
        ),
        (
            "java.net.ConnectException: getFileStatus on s3a://b/x: SdkClientException: Connect to s3:443 failed",
            JobFailedError,
            "store of the checkpoint /data/checkpoint does not answer",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error: AWSClientIOException: open s3a://b/x/state/0/0/3.changelog",
            JobFailedError,
            "a restart continues where it stopped",
        ),
        ("java.io.IOException: Disk quota exceeded", JobFailedError, "Make room"),
        ("java.io.FileNotFoundException: /x (Permission denied)", JobStoppedError, "may not write"),
        ("java.io.FileNotFoundException: /x (Read-only file system)", JobStoppedError, "may not write"),
        ("ParentNotDirectoryException: Parent path is not a directory: /x", JobStoppedError, "cannot be created"),
        ("java.lang.OutOfMemoryError: Java heap space", JobFailedError, "job.driver_memory"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", JobStoppedError, "/data/checkpoint/state"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", JobFailedError, "Another job wrote"),
        (
            "FileAlreadyExistsException: s3a://b/x/commits/5 is there already\n\tat .\nCaused by: SdkClientException",
            JobFailedError,
            "or the store had not answered when this one did",
        ),
        ("KafkaError{FATAL,code=_FENCED,val=-144}", JobFailedError, "transactional id"),
        ("KafkaError{code=OFFSET_METADATA_TOO_LARGE,val=12}", ConfigurationError, "set offset.metadata.max.bytes of"),
        ("KafkaError{code=_TRANSPORT,val=-195}", KafkaLostError, "localhost:9092 did not answer"),
        (
            "java.lang.IllegalStateException: something new",
            JobFailedError,
            "stopped. java.lang.IllegalStateException: some",
        ),
    ],
)
def test_every_end_is_one_sentence(text: str, kind: type[CheckbackError], told: str) -> None:
    found = explained(StreamingQueryException(_PROXY.format(text)), _SETTINGS)
    assert type(found) is kind
    assert told in str(found)
    assert "\n" not in str(found)
    assert found.retriable is issubclass(kind, JobFailedError)


def test_errors_of_our_own_stay_what_they_are() -> None:
    error = StateFormatError("as it is")
    assert explained(error, _SETTINGS) is error


def test_errors_of_kafkas_client_are_told_too() -> None:
    found = explained(KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)), _SETTINGS)
    assert isinstance(found, JobFailedError)
    assert "did not answer" in str(found)


def test_of_what_java_says_that_is_told_and_not_py4js_name_for_an_object() -> None:
    class Py4JJavaError(Exception):
        """Stands for py4j's, which asks Java for its text."""

    error = Py4JJavaError("An error occurred while calling o101.open.\n: java.io.IOException: no offsets/5\n\tat org.")
    assert str(explained(error, _SETTINGS)).endswith("it stopped. java.io.IOException: no offsets/5")


def test_an_error_that_no_rule_knows_is_named_with_its_place() -> None:
    chained = (
        "AssertionError: the first\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/opt/streaming/sink.py", line 96, in __call__\n    before()\n'
        '  File "/opt/streaming/access/policy_file.py", line 113, in _named\n    assert path\n           ^^^^\n{}\n'
    )
    for raised in ("AssertionError", "ValueError: what it is about"):
        found = str(explained(StreamingQueryException(_PROXY.format(chained.format(raised))), _SETTINGS))
        assert found.endswith(f"it stopped. {raised} (policy_file.py, line 113)")


def test_every_sentence_is_in_the_table_for_operators() -> None:
    table = (Path(__file__).parents[2] / "docs" / "stop-messages.md").read_text(encoding="utf-8").lower()
    values = {"prefix": "cb.", "servers": "...", "checkpoint": "...", "found": "...", "key": "..."}
    beginnings = [" ".join(rule.sentence.format(**values).split()[:4]).rstrip(",:;").lower() for rule in _KNOWN_ERRORS]
    assert [beginning for beginning in beginnings if beginning not in table] == []
