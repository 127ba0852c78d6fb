"""Steps 2 and 3 of a task: a producer that has fenced all others of its state partition, and then the progress.

Kafka ends a transaction by a marker in each of its partitions. One that has no leader, or too few replicas in sync,
gets none, and until it does Kafka begins no other transaction under the same transactional id. So that one partition of
one real topic does not stop a state partition, its transactional id then has a successor: the next *generation*.
Which one holds is an offset of its own (:mod:`streaming.ownership.generations`).

Why nothing is written twice: a task writes under generation g only when g is what it reads after ``init_transactions``,
and only then does it read the progress. Who moves on from g to g + 1

1. fences whoever moves on at the same time, by ``init_transactions`` under g + 1,
2. commits that g + 1 holds, which touches no progress, and waits until everybody reads it,
3. fences g. Of those who have read g before, none can commit any more, or one has: the progress says so to whoever
   reads it from now on. (A transaction that waits for its markers is decided: its owner can change nothing.)

Everybody else reads g + 1, and fences whoever is there.
"""

from typing import Any

from checkback.exceptions import JobFailedError
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, TopicPartition
from checkback.kafka.librdkafka.transactional import StuckError
from checkback.wire.groups import metadata_of
from streaming.brokers.client import producer_settings
from streaming.brokers.directory import TopicDirectory
from streaming.brokers.retrying import retrying
from streaming.checkpoint.progress import Progress, transactional_id
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.kafka_sink.transaction import KafkaTransaction
from streaming.ownership.generations import GENERATIONS_TRIED, Generations

_PROGRESS_SECONDS = 60.0
_TRIES = 8

_generations: dict[tuple[str, int], int] = {}
"""What this worker process has seen last."""


class Beginning:
    """Opens the transactions of one state partition.

    ``plain`` are the settings of any librdkafka client, ``place`` the partition of the progress topic, ``consumers``
    read the progress and the generations.
    """

    def __init__(
        self,
        plain: dict[str, Any],
        query_id: str,
        timeout_ms: int,
        place: TopicPartition,
        consumers: tuple[Consumer, Generations],
        directory: TopicDirectory,
    ) -> None:
        self._plain = plain
        self._query_id = query_id
        self._timeout_ms = timeout_ms
        self._place = place
        self._consumer, self._holds = consumers
        self._directory = directory
        self._key = (query_id, place.partition)

    @property
    def generation(self) -> int:
        """Of the transactional id, as this process knows it."""
        return _generations.get(self._key, 0)

    def client(self, generation: int | None = None) -> dict[str, Any]:
        """Settings of a producer of this state partition."""
        number = self.generation if generation is None else generation
        name = transactional_id(self._query_id, self._place.partition, number)
        return {**producer_settings(name, self._timeout_ms), **self._plain}

    def open(self) -> tuple[KafkaTransaction, Progress]:
        """A transaction that nobody else can write beside, and the progress read since.

        Raises:
            KafkaException: no broker answers, or Kafka does not say what the progress is.
            JobFailedError: this and another job move each other on.
        """
        if self._key not in _generations:
            _generations[self._key] = self._holds.holding(self._place.partition)
        for _ in range(_TRIES):
            generation = self.generation
            try:
                transaction = self._opened(generation)
            except StuckError:
                self._move_on(generation)
                continue
            holds = self._holds.holding(self._place.partition)
            if holds == generation:
                return transaction, self.progress()
            _generations[self._key] = holds
        raise JobFailedError(
            "Another job uses the transactional ids of this one: a restart continues where it stopped."
        )

    def renewal(self) -> tuple[TopicPartition, Any] | None:
        """What keeps Kafka from forgetting the generation that holds; None while it is the first."""
        return self._holds.mark(self._place.partition, self.generation) if self.generation else None

    def progress(self) -> Progress:
        """What Kafka has of this state partition, when no transaction that moves it is open."""
        places = [TopicPartition(self._place.topic, self._place.partition)]
        (found,) = retrying(_PROGRESS_SECONDS)(committed, self._consumer, places)
        return Progress.of(found.offset, metadata_of(found))

    def _opened(self, generation: int) -> KafkaTransaction:
        transaction = KafkaTransaction(self.client(generation), self._timeout_ms, self._directory, self._place.topic)
        transaction.open()
        return transaction

    def _move_on(self, stuck: int) -> None:
        following, transaction = self._first_free(stuck + 1)  # 1
        holds = self._holds.holding(self._place.partition)
        if holds > stuck:  # somebody has moved on already
            _generations[self._key] = holds
            return
        transaction.begin(KnownLimits())
        offset, group = self._holds.mark(self._place.partition, following)
        transaction.commit([offset], group)  # 2
        self._holds.wait_for(self._place.partition, following)
        for generation in range(holds, following):
            self._fence(generation)  # 3
        _generations[self._key] = following

    def _first_free(self, generation: int) -> tuple[int, KafkaTransaction]:
        for number in range(generation, generation + GENERATIONS_TRIED):
            try:
                return number, self._opened(number)
            except StuckError:
                continue
        raise JobFailedError("Kafka cannot end this job's transactions: see which of its partitions have no leader.")

    def _fence(self, generation: int) -> None:
        try:
            self._opened(generation)
        except StuckError:
            return
