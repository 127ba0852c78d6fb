"""All state partitions at once, before Spark runs a batch: their progress, and the end of whoever wrote before."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, TopicPartition
from checkback.kafka.librdkafka.transactional import StuckError, Transactional, transactional_settings
from checkback.wire.groups import metadata_of
from streaming.brokers.client import SinkSettings
from streaming.brokers.retrying import retrying
from streaming.checkpoint.progress import Progress, progress_group, transactional_id
from streaming.ownership.generations import GENERATIONS_TRIED, Generations

_CALL_SECONDS = 5.0
_AT_ONCE = 16


def read_progress(settings: SinkSettings, query_id: str, partitions: int, *, settled: bool) -> list[Progress]:
    """The progress offset of each state partition.

    ``settled``: wait until no transaction that moves one is open. Without it the last one that was committed is
    returned: a job that was killed leaves transactions open for up to their timeout, or until they are fenced.
    """
    isolation = "read_committed" if settled else "read_uncommitted"
    group = {"group.id": progress_group(query_id), "enable.auto.commit": False, "isolation.level": isolation}
    consumer = make_client(Consumer, settings.client(**group))
    places = [TopicPartition(settings.topics.progress, number) for number in range(partitions)]
    try:
        found = retrying()(committed, consumer, places)
    finally:
        consumer.close()
    return [Progress.of(one.offset, metadata_of(one)) for one in found]


def any_has(settings: SinkSettings, query_id: str, partitions: int, batch: int, *, settled: bool = True) -> bool:
    """Whether Kafka has this batch, or a later one, of any state partition; ``settled`` as in :func:`read_progress`."""
    return any((one.offset or 0) > batch for one in read_progress(settings, query_id, partitions, settled=settled))


def fence(settings: SinkSettings, query_id: str, partitions: int) -> None:
    """Fence the producers of every state partition, and settle what they left half done.

    From now on no earlier run can write to Kafka in this checkpoint's name, not even one that slept through it; nor a
    task that sleeps just before it moves on to another generation, under which it has a producer already.
    """
    with contextlib.closing(Generations(settings.client(), query_id, settings.topics.progress)) as holds:
        fenced: list[int] = []
        while True:
            generations = [holds.holding(number) for number in range(partitions)]
            if generations == fenced:  # nobody has moved on meanwhile
                return
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                names = [
                    transactional_id(query_id, partition, generation + ahead)
                    for partition, generation in enumerate(generations)
                    for ahead in range(GENERATIONS_TRIED + 1)
                ]
                list(pool.map(lambda name: retrying()(_fence, settings, name), names))
            fenced = generations


def _fence(settings: SinkSettings, name: str) -> None:
    kafka = Transactional(settings.client(**transactional_settings(name, settings.transaction_timeout_ms)))
    kafka.connect(settings.topics.progress, _CALL_SECONDS)
    with contextlib.suppress(StuckError):  # fenced all the same: see streaming.kafka_sink.beginning
        kafka.fence(_CALL_SECONDS)
