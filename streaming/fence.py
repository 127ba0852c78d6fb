"""All state partitions at once, before Spark runs a batch: their progress, and the end of whoever wrote before."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.partition_writer import SinkSettings
from streaming.patience import committed, patience
from streaming.progress import Progress, progress_group, transactional_id

_CALL_SECONDS = 5.0
_AT_ONCE = 16
_NO_ID = 22 * "A"  # 16 bytes of zeros in base 64


def read_progress(settings: SinkSettings, query_id: str, partitions: int, *, settled: bool) -> list[Progress]:
    """The progress offset of each state partition.

    ``settled``: wait until no transaction that moves one is open. Without it the last one that was committed is
    returned: a job that was killed leaves transactions open for up to their timeout, or until they are fenced.
    """
    isolation = "read_committed" if settled else "read_uncommitted"
    group = {"group.id": progress_group(query_id), "enable.auto.commit": False, "isolation.level": isolation}
    consumer = Consumer(settings.client(**group))
    places = [TopicPartition(settings.topics.progress, number) for number in range(partitions)]
    try:
        found = patience()(committed, consumer, places)
    finally:
        consumer.close()
    return [Progress.of(one.offset, one.metadata) for one in found]


def any_has(settings: SinkSettings, query_id: str, partitions: int, batch: int, *, settled: bool = True) -> bool:
    """Whether Kafka has this batch, or a later one, of any state partition; ``settled`` as in :func:`read_progress`."""
    return any((one.offset or 0) > batch for one in read_progress(settings, query_id, partitions, settled=settled))


def fence(settings: SinkSettings, query_id: str, partitions: int) -> None:
    """Fence the producers of every state partition, and settle what they left half done.

    From now on no earlier run can write to Kafka in this checkpoint's name, not even one that slept through it.
    """
    with ThreadPoolExecutor(min(partitions, _AT_ONCE)) as pool:
        names = (transactional_id(query_id, number) for number in range(partitions))
        list(pool.map(lambda name: patience()(_fence, settings, name), names))


def topic_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """Kafka's own id of each topic that exists; a topic that is deleted and made again has another one.

    Empty where Kafka gives none (before version 2.8).

    Raises:
        KafkaException: Kafka did not say.
    """
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_CALL_SECONDS)
    found = {}
    for name, answer in asked.items():
        try:
            given = str(answer.result().topic_id)
            found[name] = "" if given == _NO_ID else given
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _fence(settings: SinkSettings, name: str) -> None:
    # the first try falls before the socket is up: see producer_settings
    quick: dict[str, Any] = {"transactional.id": name, "reconnect.backoff.ms": 10}
    producer = Producer(settings.client(**quick, **{"transaction.timeout.ms": settings.transaction_timeout_ms}))
    # Init is quicker on a connection that is up; asked for one topic only it takes 500 ms longer, one time in four.
    producer.list_topics(timeout=_CALL_SECONDS)
    producer.init_transactions(_CALL_SECONDS)
