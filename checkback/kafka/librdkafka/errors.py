"""What librdkafka's errors mean, in one place: for whoever holds the client, the record, or the topic."""

import contextlib
import ctypes
import logging
import sys
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from checkback.kafka.bounded_calls import in_thread

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
TIMED_OUT = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
"""Nothing was heard of it in time."""
ENDED = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""What is said of the records of a client that can do no more."""
WRONG_SETTINGS = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT})
"""What librdkafka says of options that it does not have, or whose values it cannot use."""
NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
METADATA_REFUSED = frozenset({KafkaError.OFFSET_METADATA_TOO_LARGE})
"""What is stored beside an offset is too long for the brokers: see ``beside_offsets.metadata_refused``."""
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""Another producer of the same transactional id has begun, or Kafka has ended the transaction."""
REBALANCING = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID})
"""The group is sharing its partitions out again."""

NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
GONE = NO_TOPIC | {KafkaError._UNKNOWN_PARTITION}
"""There is no such topic or partition, or none yet."""
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
OF_THE_RECORD = TOO_LARGE | {KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD}
"""Refusals that are one record's fault: the topic takes others."""
REFUSES_ALL = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""What a topic says of every record that the job writes."""
NEVER_TAKEN = (OF_THE_RECORD | REFUSES_ALL | {KafkaError._UNKNOWN_PARTITION}) - NOT_ALLOWED
"""Of a record that is written again as it is. Rights may be given."""
REFUSED = GONE | TOO_LARGE | REFUSES_ALL | {KafkaError.INVALID_RECORD}
"""Errors that are the record's or its topic's fault. All others, a broker away or a fence, are nobody's."""

_TRUNCATION = KafkaError(KafkaError._LOG_TRUNCATION).str()
_TRANSIENT = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    }
)
"""Besides those that Kafka's clients call retriable: a coordinator that has just started or moved."""
LEADER_AWAY = GONE | {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
}
"""What a reader is told while a broker or a leader is away, or of a partition that its client has not heard of yet."""


def is_truncation(error: KafkaError) -> bool:
    """Return whether a log has lost the records before an offset that was read (KIP-320).

    With ``auto.offset.reset=error`` librdkafka 2.16 names that in the text alone.
    """
    return error.code() == KafkaError._LOG_TRUNCATION or _TRUNCATION in str(error.str())


def error_code(error: KafkaException) -> int:
    """The code of the KafkaError in it."""
    return int(error.args[0].code())


def is_transient(error: BaseException) -> bool:
    """Whether the same call may go well later, with nothing changed."""
    return isinstance(error, KafkaException) and (error_code(error) in _TRANSIENT or error.args[0].retriable())


_SET_TRACEBACK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(
    ("PyException_SetTraceback", ctypes.pythonapi)
)


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can do no more. All its calls say so from then on, with ``_FATAL`` instead of the reason."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def is_spent(error: KafkaError) -> bool:
    """Whether another client may do better: this one can do no more, or it has not heard of a record in time.

    An idempotent producer cannot go on, for example, when the broker has lost what it knew of its records
    (OUT_OF_ORDER_SEQUENCE_NUMBER): an unclean restart, a log that was cut short.
    """
    return is_fatal(error) or error.code() in TIMED_OUT


def result_of(answer: "Future[T]") -> T:
    """The answer to a request of an ``AdminClient``.

    Raises:
        KafkaException: a copy of the answer's, which would be in a circle with the frames that it passes.
    """
    error = answer.exception()
    if error is not None:
        raise copy(error)
    return answer.result()


def serve(call: Callable[[float], int], seconds: float) -> int:
    """Call a producer's ``poll`` or ``flush``.

    After a fatal error confluent-kafka 2.16 raises its ``KafkaError``, which is not an exception: ``except Exception``
    and ``except BaseException`` both let it pass. If a callback follows in the same call, it raises ``SystemError``.

    Python gives that error a traceback and, as its context, the exception that is being handled. confluent-kafka never
    releases them: each client in their frames would run until the process ends, with ever longer logs. So a
    thread that handles no exception makes the call, and the traceback is removed.

    Raises:
        KafkaException: the fatal error.
    """
    if sys.exc_info()[1] is not None:
        return in_thread(partial(serve, call, seconds)).result()
    try:
        return call(seconds)
    except SystemError as error:
        error.__traceback__ = None  # that error is not released either
        fatal = error.__cause__
        if isinstance(fatal, KafkaException):  # its error, without the exception: that would keep the producer
            raise KafkaException(fatal.args[0]) from None
        raise KafkaException(KafkaError(KafkaError._STATE, "see the fatal error")) from error
    except:  # the only clause that catches what is no exception
        _raise_fatal()
        raise


def _raise_fatal() -> None:
    """Raise the error that is no exception; not in ``serve``: kept there, any other is in a circle with its frame."""
    raised: object = sys.exc_info()[1]
    if isinstance(raised, KafkaError):
        _SET_TRACEBACK(raised, None)  # see serve
        raise KafkaException(raised) from None


def polled(client: Any, seconds: float) -> KafkaError | None:
    """Serve what ``client`` has to report, for at most ``seconds``. Gives the error that has ended it, if it is heard.

    A fatal error is raised by the call that happens to serve it, once, also where there is an ``error_cb``
    (confluent-kafka 2.16). The records under way are reported by the next call.
    """
    try:
        serve(client.poll, seconds)
    except KafkaException as error:
        _told(error)
        return error.args[0]  # type: ignore[no-any-return]  # as confluent-kafka raises it
    return None


def flushed(client: Any, seconds: float) -> None:
    """Wait until ``client`` has nothing under way any more, for at most ``seconds``.

    See :func:`polled`. The next write raises the error.
    """
    deadline = monotonic() + seconds
    try:
        serve(client.flush, seconds)
    except KafkaException as error:
        _told(error)
        with contextlib.suppress(KafkaException):
            serve(client.flush, max(0.0, deadline - monotonic()))


def _told(error: Exception) -> None:
    _LOGGER.warning("A Kafka client failed, and another one takes its place: %s", error)
