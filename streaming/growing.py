"""More state partitions for a checkpoint that goes on, or fewer: ``checkback grow``.

Spark's own offline repartitioning (4.2, ``StreamingCheckpointManager``) adds a batch that has read nothing, and whose
state lies in other partitions. What is ours is the progress in Kafka, which a partition that is new has to have.
"""

import contextlib
import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError, ConfigurationError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import AdminClient, Consumer, KafkaException, TopicPartition
from checkback.kafka.librdkafka.topics import described
from checkback.operations.topics import TopicAdministration
from conf import Settings
from streaming.brokers.client import SinkSettings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.brokers.retrying import retrying
from streaming.checkpoint.folder import Checkpoint, CheckpointFacts
from streaming.checkpoint.place import refuse_silent_master, refuse_unfit_place
from streaming.checkpoint.progress import progress_group
from streaming.checkpoint.repair import SNAPSHOT, STATE, examine, files_of_begun
from streaming.folders import path_of_state
from streaming.kafka_sink.beginning import Beginning
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import wall_ms
from streaming.ownership.fence import read_progress
from streaming.ownership.generations import Generations
from streaming.session import build_session
from streaming.stops import explained
from streaming.takeover import Clock, TakeOver

_LOGGER = logging.getLogger(__name__)


def grow(settings: Settings, partitions: int) -> int:
    """Give the checkpoint that the settings name so many state partitions; the job on it has been stopped.

    Cut off at any moment, it is to be called again, and no job starts before: with the same number, or with that which
    it had, and then it is left as it was.

    Returns:
        How many it had; as many as ``partitions`` where there was nothing to do.

    Raises:
        ConfigurationError, CheckpointMismatchError: it cannot be done; nothing is changed, but for the claim.
        JobFailedError: Kafka or the checkpoint's folder is away.
    """
    refuse_unfit_place(settings.job.checkpoint, settings.job.master)
    refuse_silent_master(settings.job.master)
    try:
        return _grow(settings, SinkSettings.of(settings), partitions)
    except (KafkaException, PySparkException, Py4JError, OSError) as error:
        raise explained(error, settings) from error


def _grow(settings: Settings, sink: SinkSettings, partitions: int) -> int:
    topics = settings.kafka.topics
    ids = retrying()(described, make_client(AdminClient, sink.client()), [topics.half, topics.op])
    if topics.half not in ids or topics.op not in ids:
        raise ConfigurationError(f"Kafka has no topic {topics.half} or {topics.op}: there is no job to grow.")
    _LOGGER.info("Starting Spark (%s) to read %s ...", settings.job.master, settings.job.checkpoint)
    spark = build_session(settings)
    try:
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        before, growing = checkpoint.state_partitions(), checkpoint.growing()
        given_up = growing if growing != partitions == before else None
        checkpoint.check(
            CheckpointFacts(
                settings.transactions.segment_size,
                before,
                ids[topics.half].partitions,
                settings.kafka.topic_prefix,
                ids[topics.half].id,
                ids[topics.op].id,
            ),
            to_grow=partitions if given_up is None else given_up,
        )
        growth = _Growth(spark, settings, sink, checkpoint, ids[topics.half].id)
        if given_up is not None:
            growth.give_up(given_up, before)
        elif before != partitions or growing is not None:
            growth.to(partitions, before)
    finally:
        with contextlib.suppress(Py4JError, OSError):
            spark.stop()
    return before


class _Growth:
    """Of one checkpoint."""

    def __init__(
        self, spark: SparkSession, settings: Settings, sink: SinkSettings, checkpoint: Checkpoint, half_topic_id: str
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._sink = sink
        self._checkpoint = checkpoint
        self._own = Owner(checkpoint.query_id(), settings.job.name, half_topic_id)

    def to(self, partitions: int, before: int) -> None:
        """All of it.

        1. The run before ends, if it has not, and can write no more. What it has begun and nothing of which is in
           Kafka, as a job that is stopped leaves it, is read again by the next batch.
        2. From now on no job starts on the folder before this has come to its end.
        3. Partitions that are new get the progress that all others have.
        4. Spark makes its batch, unless it has.
        5. The folder has so many from now on, and jobs may start.
        """
        with contextlib.closing(Claim(self._sink)) as claim:
            _LOGGER.info("Ending the run before, if there is one ...")
            self._take_over(claim, before, partitions)  # 1
            batch = self._last_batch(before, partitions)
            self._checkpoint.begin_growing(partitions)  # 2
            claim.refuse_another(self._own)
            if self._checkpoint.partitions_of_batch(batch) != partitions:
                self._store_progress(batch, range(before, partitions))  # 3
                self._repartition(partitions)  # 4
            self._checkpoint.synchronise()
            claim.refuse_another(self._own)
            self._checkpoint.end_growing(partitions)  # 5
            self._checkpoint.synchronise()

    def give_up(self, partitions: int, before: int) -> None:
        """Leave it as it was: what was begun so that it should get ``partitions`` is removed.

        1. As :meth:`to`.
        2. Spark's batch goes, whether it has ended or not; nothing of it is in Kafka.
        3. Jobs may start.
        """
        with contextlib.closing(Claim(self._sink)) as claim:
            self._take_over(claim, before, partitions)  # 1
            found = examine(self._checkpoint)
            begun = found.begun if found.unfinished else None  # both may be Spark's, the newer one first
            for batch in (begun, found.committed):
                if batch is not None and self._checkpoint.partitions_of_batch(batch) == partitions:
                    self._give_up(batch)  # 2
            self._checkpoint.synchronise()
            claim.refuse_another(self._own)
            self._checkpoint.give_up_growing(partitions)  # 3
            self._checkpoint.synchronise()
        _LOGGER.info("What was begun so that it should have %d state partitions is given up.", partitions)

    def _last_batch(self, before: int, partitions: int) -> int:
        """The one that has ended, with nothing behind it but what Spark's repartitioning may have begun."""
        found = examine(self._checkpoint)
        if found.committed is None:
            raise CheckpointMismatchError(
                f"{self._checkpoint.folder} has no batch yet: name a new folder, and set job.state_partitions."
            )
        if found.begun is not None and found.unfinished and not self._is_sparks(found.begun, found.committed):
            progress = read_progress(self._sink, self._own.query_id, before, settled=True)
            if any((one.offset or 0) > found.begun for one in progress):
                raise CheckpointMismatchError(
                    f"Batch {found.begun} in {self._checkpoint.folder} was cut off when a part of it was in Kafka: "
                    "start the job again, stop it with SIGTERM when it has done a batch, and then grow."
                )
            self._give_up(found.begun)
        last = found.committed
        # an earlier growth, with no job's batch since, has left one, too: of another number, and it stays
        ours = self._checkpoint.growing() is not None and self._checkpoint.partitions_of_batch(last) == partitions
        if not ours or not last or not self._is_sparks(last, last - 1) or self._whole(last, partitions):
            return last
        self._give_up(last)
        return last - 1

    def _whole(self, batch: int, partitions: int) -> bool:
        """Whether a power loss has left the state of Spark's batch: each partition has one file of it."""
        found = [self._checkpoint.names(f"{STATE}/{number}") for number in range(partitions)]
        return all(f"{batch + 1}{SNAPSHOT}" in names for names in found)

    def _give_up(self, batch: int) -> None:
        for name in [f"commits/{batch}", *files_of_begun(self._checkpoint, batch)]:
            self._checkpoint.remove(name)

    def _is_sparks(self, batch: int, before: int) -> bool:
        """Whether a batch is of Spark's repartitioning: a job's has as many partitions as the one before it."""
        return self._checkpoint.partitions_of_batch(batch) != self._checkpoint.partitions_of_batch(before)

    def _take_over(self, claim: Claim, before: int, partitions: int) -> None:
        clock = Clock(wall_ms(), self._settings.job.clock_tolerance)
        taking = TakeOver(self._checkpoint, self._own, clock, self._sink, claim, before, partitions)
        taking.judge(new_checkpoint=False)
        taking.take()

    def _store_progress(self, batch: int, new: range) -> None:
        topic = self._settings.kafka.topics.progress
        client = self._settings.kafka
        with TopicAdministration(client.bootstrap_servers, client.python_client) as administration:
            administration.grow(topic, new.stop)
        entry = self._checkpoint.entry(batch)
        group = {"group.id": progress_group(self._own.query_id), "enable.auto.commit": False}
        plain, timeout_ms = self._sink.client(), self._sink.transaction_timeout_ms
        consumer = make_client(Consumer, self._sink.client(**group))
        holds, directory = Generations(plain, self._own.query_id, topic), TopicDirectory(Brokers(plain))
        with contextlib.closing(consumer), contextlib.closing(holds):
            for number in new:
                place = TopicPartition(topic, number, batch + 1, entry.content_hash)
                beginning = Beginning(plain, self._own.query_id, timeout_ms, place, (consumer, holds), directory)
                retrying()(_store, beginning, place, consumer.consumer_group_metadata())

    def _repartition(self, partitions: int) -> None:
        _ = self._spark.streams.active  # makes what state stores are registered with, as the first query does
        _LOGGER.info("Spark moves the state to %d partitions ...", partitions)
        state = path_of_state(self._spark, self._checkpoint.folder)
        self._spark._streamingCheckpointManager.repartition(state, partitions)  # noqa: SLF001  (as Spark's own documentation names it)


def _store(beginning: Beginning, place: TopicPartition, group: Any) -> None:
    """Store a progress offset as the tasks do: the next producer of the state partition fences delayed requests."""
    transaction, _ = beginning.open()
    transaction.begin(KnownLimits())
    transaction.commit([place], group)
