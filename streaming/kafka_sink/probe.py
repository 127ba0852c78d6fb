"""What brokers say of topics when they are asked, and of single records when these are tried."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import Any

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import REFUSED, TIMED_OUT, error_code
from checkback.kafka.librdkafka.library import (
    AclOperation,
    AdminClient,
    ConfigResource,
    KafkaError,
    KafkaException,
    ResourceType,
    TopicCollection,
)
from checkback.kafka.librdkafka.topics import of_controller
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.rights import Operation, ResourceKind, Right
from streaming.batch.record import Record
from streaming.kafka_sink.topic_limits import UNLIMITED, TopicLimits

_LOGGER = logging.getLogger(__name__)
_SECONDS = 30.0
_ASK_SECONDS = 10.0
"""These questions go to one broker, which may have just died; it is not told about then."""
_NOT_AUTHORIZED = "this job may not write to that topic: grant its user Write on it"

_clients: dict[str, AdminClient] = {}


def describe_limits(client: dict[str, Any], topics: Iterable[str], *, compressed: bool) -> dict[str, TopicLimits]:
    """Rules of these topics, two requests for all; topics that the brokers do not tell about are left out.

    With compressed batches no size of an uncompressed one says that it is too large.
    """
    names = sorted(topics)
    if not names:
        return {}
    admin = _clients.setdefault(client["bootstrap.servers"], make_client(AdminClient, client))
    with contextlib.suppress(KafkaException):
        return of_controller(admin, partial(_told, admin, names, compressed=compressed))
    return {}


def _told(admin: AdminClient, names: list[str], *, compressed: bool) -> dict[str, TopicLimits]:
    """Raises KafkaException where nothing was heard in time."""
    rules = _limits(admin, names, compressed=compressed)
    described = admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=_ASK_SECONDS
    )
    for name, answer in described.items():
        with _whatever_is_said():
            allowed = answer.result(_SECONDS).authorized_operations
            if allowed and AclOperation.WRITE not in allowed and AclOperation.ALL not in allowed:
                rules[name] = TopicLimits(refused=_NOT_AUTHORIZED)
    return rules


def _limits(admin: AdminClient, names: list[str], *, compressed: bool) -> dict[str, TopicLimits]:
    rules: dict[str, TopicLimits] = {}
    for resource, answer in admin.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=_ASK_SECONDS
    ).items():
        with _whatever_is_said():
            configured = {name: entry.value for name, entry in _said(resource.name, answer).items()}
            fits = min(int(configured["max.message.bytes"]), int(configured["segment.bytes"]), MOST_RECORD_BYTES)
            too_large_from = UNLIMITED if compressed else fits + 1
            rules[resource.name] = TopicLimits("", fits, too_large_from, "compact" in configured["cleanup.policy"])
    return rules


@contextlib.contextmanager
def _whatever_is_said() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        if error_code(error) in TIMED_OUT:
            raise


def _said(topic: str, answer: Any) -> Any:
    try:
        return answer.result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            lacks = Right(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, topic)
            _LOGGER.warning("What that topic takes has to be tried: grant the job's user %s.", lacks)
        raise


def probe_individually(
    client: dict[str, Any], records: Sequence[Record], dated_ms: int, until: float = inf
) -> tuple[dict[int, KafkaError], list[int]]:
    """Which of these records Kafka refuses, each in a batch of its own; and which have not been tried by ``until``.

    By their index; ``until`` is a reading of the monotonic clock, in seconds.

    They are written in transactions that are aborted. After a refusal a transaction takes nothing more, so one round
    settles all that fit before the first that does not, and the few that were on their way then.

    Raises:
        KafkaException: something else is wrong.
    """
    answers: dict[int, KafkaError | None] = {}
    waiting = list(range(len(records)))
    while waiting and monotonic() < until:
        failure = _try_round(client, records, waiting, answers, dated_ms)
        left = [index for index in waiting if index not in answers]
        if len(left) == len(waiting):
            raise KafkaException(failure or KafkaError(KafkaError._TIMED_OUT, "Kafka does not answer"))
        waiting = left
    return {index: error for index, error in answers.items() if error is not None}, waiting


def _try_round(
    client: dict[str, Any],
    records: Sequence[Record],
    waiting: list[int],
    answers: dict[int, KafkaError | None],
    dated_ms: int,
) -> KafkaError | None:
    transaction = Transactional({**client, "batch.num.messages": 1})
    failure = None
    try:
        transaction.connect(records[waiting[0]].topic)
        transaction.fence(_SECONDS)
        transaction.begin()
        produce = transaction.producer.produce
        for index in waiting:
            topic, partition, key, value, headers = records[index]
            try:
                delivered = partial(_note, answers, index)
                produce(topic, value, key, partition, delivered, timestamp=dated_ms, headers=headers)  # type: ignore[arg-type] # lists are invariant
            except BufferError:
                break
            except KafkaException as error:
                if error_code(error) in REFUSED:  # larger than librdkafka sends
                    answers[index] = error.args[0]
                    continue
                raise
        transaction.flush(_SECONDS)
    except KafkaException as error:
        failure = error.args[0]  # the exception itself would keep the producer
    transaction.abort(_SECONDS)
    return failure


def _note(answers: dict[int, KafkaError | None], index: int, error: KafkaError | None, _: Any) -> None:
    if error is None or error.code() in REFUSED:
        answers[index] = error
