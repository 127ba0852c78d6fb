"""What ended the query, or kept it from starting, as one sentence: what happened, and what to do.

The table in ``docs/stop-messages.md`` lists these and the errors that our own checks raise. Nothing but text comes out
of Spark's process, so texts are what the rules look for: those of Spark 4.2, its connector, and librdkafka. Lost data,
a full disk, missing permissions, state that cannot be read and concurrent writers were seen in runs; the others were
not.
"""

import os
import re
from dataclasses import dataclass

from access import Role, Whom, rights_of
from checkback import exceptions
from checkback.exceptions import (
    CheckbackError,
    CheckpointMismatchError,
    ConfigurationError,
    JobFailedError,
    JobStoppedError,
    KafkaLostError,
)
from checkback.wire.groups import metadata_refused
from checkback.wire.rights import not_allowed
from conf import Settings

_NOT_ALLOWED = re.compile(r"[^\n]{0,100}(?i:topic|group|transactional.?id|cluster).?(?i:authorization)[^\n]{0,200}")
_OF_PY4J = re.compile(r"Py4JJavaError: An error occurred while calling ")
"""It says which of its objects it was; the next line is Java's."""
_OURS = re.compile(r"checkback\.exceptions\.(\w+): (.+)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t][^\n]*\n)+)(\S[^\n]*)")
"""Its frames, and the error in its last line."""
_FRAME = re.compile(r'File "(?:[^"\n]*/)?([^"\n/]+)", (line \d+)')


@dataclass(frozen=True)
class _KnownError:
    """A text, and what it means; ``{...}`` in the sentence is a setting, or a group of the text."""

    text: str
    kind: type[CheckbackError]
    sentence: str


_KNOWN_ERRORS = (
    _KnownError(
        r"KAFKA_DATA_LOSS|[Ss]ome data may have been (?:lost|missed)|OffsetOutOfRange",
        CheckpointMismatchError,
        "Records of {prefix}half or {prefix}op that the job has not read yet are gone: the topic was truncated, its "
        "retention is too short, or it was deleted and recreated. Name a new checkpoint folder and start with "
        "'checkback run --new-checkpoint', which re-delivers everything that is still in the half topic; messages that "
        "are gone have to be sent again.",
    ),
    _KnownError(
        r"UnknownTopicOrPartition|UnknownTopicId|UNKNOWN_TOPIC_OR_PART|UNKNOWN_TOPIC_ID",
        JobStoppedError,
        "Kafka has lost one of the topics {prefix}* while the job ran: find out who deleted it. 'checkback topics "
        "create' creates it again; without the original half and op topics this checkpoint cannot be used.",
    ),
    _KnownError(
        r"(?i)Sasl\w*Exception|_AUTHENTICATION\b|SslAuthentication\w*|authentication failed",
        JobStoppedError,
        "Kafka at {servers} refuses the job's credentials ({found}): correct kafka.security, or kafka.source_options, "
        "kafka.sink_options and kafka.client_options, which override it for one client each.",
    ),
    _KnownError(
        r"(?<=ConfigException: )[^\n]+",
        ConfigurationError,
        "Spark's Kafka client cannot use kafka.source_options or kafka.security: {found}",
    ),
    _KnownError(
        r"(?i)no space left on device|disk quota exceeded|file too large|not enough space",
        JobFailedError,
        "A disk is full ({found}): the one of the checkpoint {checkpoint}, or of Spark's scratch files "
        "(spark.local.dir). Make room; a restart continues where it stopped.",
    ),
    _KnownError(
        r"Call From \S+ to \S+ failed on [^\n:;]+|Name node is in safe mode|SafeModeException"
        r"|could only be written to \d+ of the \d+ [^\n.]+|All datanodes [^\n]{1,200} are bad",
        JobFailedError,
        "HDFS, where the checkpoint {checkpoint} is, does not answer or takes nothing ({found}): a restart continues "
        "where it stopped.",
    ),
    _KnownError(
        r"NoA(?:uthWithAWS|wsCredentials)Exception|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken"
        r"|AccessDeniedException(?=: (?:s3a:|[^\n]{0,300}awssdk))",
        JobStoppedError,
        "The store of the checkpoint {checkpoint} refuses the job's credentials ({found}; {key}): put an access key "
        "that may list, read, write and delete there into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the job's "
        "environment.",
    ),
    _KnownError(
        r"UnknownStoreException|NoSuchBucket",
        ConfigurationError,
        "job.checkpoint: the store has no bucket as {checkpoint} names it ({found}): make it, or name another one; "
        "spark.hadoop.fs.s3a.endpoint and spark.hadoop.fs.s3a.endpoint.region in job.spark_options say which store.",
    ),
    _KnownError(
        r"s3a:\S+ is there already",
        JobFailedError,
        "Another job wrote into {checkpoint} while this one took it over, or the store had not answered when this one "
        "did: a restart of this one continues.",
    ),
    _KnownError(
        r"AWSClientIOException|AWSApiCallTimeoutException|AWSNoResponseException|AWSStatus500Exception"
        r"|AWSServiceThrottledException|SdkClientException|s3a:[^\n]{1,300}(?:ConnectException|TimeoutException)",
        JobFailedError,
        "The store of the checkpoint {checkpoint} does not answer ({found}): a restart continues where it stopped.",
    ),
    _KnownError(
        r"(?i)permission denied|read-only file system|AccessControlException|operation not permitted",
        JobStoppedError,
        "The job may not write to its files ({found}): give its user the checkpoint folder {checkpoint} and Spark's "
        "scratch folder (spark.local.dir), then start again.",
    ),
    _KnownError(
        r"(?i)parent path is not a directory|ParentNotDirectory\w*|not a directory|mkdirs failed[^,\n]*",
        JobStoppedError,
        "The checkpoint folder {checkpoint} cannot be created ({found}): name another one in job.checkpoint.",
    ),
    _KnownError(
        r"OutOfMemoryError[^\n]*",
        JobFailedError,
        "Spark ran out of memory ({found}); a restart continues where it stopped. Give it more with "
        "job.driver_memory, or make batches smaller with job.max_offsets_per_trigger.",
    ),
    _KnownError(
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE_\w+|ChecksumException|RocksDBException",
        JobStoppedError,
        "Spark cannot read its state in {checkpoint}/state ({found}): restore the folder from its newest copy, or name "
        "a new one ('checkback run --new-checkpoint'), which re-delivers everything that is still in the half topic.",
    ),
    _KnownError(
        r"CONCURRENT_STREAM_LOG_UPDATE|Concurrent update to the log|concurrently using|[Mm]ultiple streaming",
        JobFailedError,
        "Another job wrote into {checkpoint} while this one took it over: a restart of this one continues.",
    ),
    _KnownError(
        r"(?i)_FENCED\b|fenced|INVALID_PRODUCER_EPOCH",
        JobFailedError,
        "Another producer, perhaps a task of an earlier run, used this job's transactional id for a moment: a restart "
        "continues where it stopped.",
    ),
    _KnownError(
        r"Answer from Java side is empty|Py4JNetworkError|Connection refused: no further|while sending or receiving",
        JobFailedError,
        "Spark's process has ended, perhaps killed for lack of memory: a restart continues where it stopped. "
        "See job.driver_memory and the system's log.",
    ),
    _KnownError(
        r"_TRANSPORT\b|_ALL_BROKERS_DOWN|_TIMED_OUT\b|TimeoutException|DisconnectException|node assignment",
        KafkaLostError,
        "Kafka at {servers} did not answer in time ({found}): a restart continues where it stopped.",
    ),
)


def explained(error: BaseException, settings: Settings) -> CheckbackError:
    """What to tell people of an error; ``retriable`` says whether a start with nothing changed may go well.

    Ours are told as they are, also when they come out of Spark as text. What no rule knows is a
    :class:`JobFailedError` with the error's own line.
    """
    if isinstance(error, CheckbackError):
        return error
    text = f"{type(error).__name__}: {error}"
    ours = _OURS.search(text)
    if ours is not None:
        kind = getattr(exceptions, ours[1], JobStoppedError)
        return (kind if issubclass(kind, JobStoppedError | JobFailedError) else JobStoppedError)(ours[2])
    refused = _NOT_ALLOWED.search(text)
    if refused is not None:
        rights = rights_of(Role.JOB, Whom(settings.kafka.topics, real=("*",)))
        return not_allowed("the job", refused[0].strip(), rights)
    if "OFFSET_METADATA_TOO_LARGE" in text:
        return metadata_refused("the job", "OFFSET_METADATA_TOO_LARGE")
    values = {
        "prefix": settings.kafka.topic_prefix,
        "servers": settings.kafka.bootstrap_servers,
        "checkpoint": settings.job.checkpoint,
        "key": _key_of_store(),
    }
    for rule in _KNOWN_ERRORS:
        found = re.search(rule.text, text)
        if found is not None:
            return rule.kind(rule.sentence.format(found=found[0].strip(), **values))
    return JobFailedError(f"The query failed; a restart continues where it stopped. {essence(text)}")


def essence(text: str) -> str:
    """Python's error and its place, if there is a traceback; else the first line."""
    for frames, error in reversed(_TRACEBACK.findall(text)):
        places = _FRAME.findall(frames)
        return f"{error} ({', '.join(places[-1])})" if places else str(error)
    lines = [line for line in text.splitlines() if line.strip() and not _OF_PY4J.match(line)]
    return lines[0].removeprefix(": ") if lines else text


def _key_of_store() -> str:
    key = os.environ.get("AWS_ACCESS_KEY_ID")
    return f"the environment's key is {key}" if key else "AWS_ACCESS_KEY_ID is not set in its environment"
