"""Steps 2 and 3 of a task: a producer that has fenced all others of its state partition, and then the progress.

Kafka ends a transaction by a marker in each of its partitions. One that has no leader, or too few replicas in sync,
gets none, and until it does Kafka begins no other transaction under the same transactional id. So that one partition of
one real topic does not stop a state partition, its transactional id then has a successor: the next *generation*.
Which one holds is in the metadata of the progress offset.

Why nothing is written twice: a task writes under generation g only when the progress that it read after
``init_transactions`` says g. Who moves on from g to g + 1 first commits that to the progress, and then fences g: of
those who have read g before, none can commit any more, or one has, and then the progress read after that says so.
Everybody else reads g + 1, and fences whoever is there. (A transaction that waits for its markers is fenced, too: it is
decided, and its owner can change nothing.)
"""

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from checkback.exceptions import JobFailedError
from streaming.directory import TopicDirectory
from streaming.patience import committed, patience
from streaming.progress import Progress, transactional_id
from streaming.topic_rules import Rules
from streaming.transaction import StuckError, Transaction, producer_settings

_PROGRESS_SECONDS = 60.0
_TRIES = 8

_generations: dict[tuple[str, int], int] = {}
"""What this worker process has seen last."""


class Beginning:
    """Opens the transactions of one state partition.

    ``plain`` are the settings of any librdkafka client, ``place`` the partition of the progress topic.
    """

    def __init__(
        self,
        plain: dict[str, Any],
        query_id: str,
        timeout_ms: int,
        place: TopicPartition,
        consumer: Consumer,
        directory: TopicDirectory,
    ) -> None:
        self._plain = plain
        self._query_id = query_id
        self._timeout_ms = timeout_ms
        self._place = place
        self._consumer = consumer
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

    def open(self) -> tuple[Transaction, Progress]:
        """A transaction that nobody else can write beside, and the progress read since.

        Raises:
            KafkaException: no broker answers, or Kafka does not say what the progress is.
            JobFailedError: this and another job move each other on.
        """
        if self._key not in _generations:
            _generations[self._key] = self.progress().generation
        for _ in range(_TRIES):
            generation = self.generation
            try:
                transaction = self._opened(generation)
            except StuckError:
                self._move_on(generation)
                continue
            progress = self.progress()
            if progress.generation == generation:
                return transaction, progress
            _generations[self._key] = progress.generation
        raise JobFailedError(
            "Another job uses the transactional ids of this one: started again, it goes on where it was."
        )

    def progress(self) -> Progress:
        """What Kafka has of this state partition, when no transaction that moves it is open."""
        places = [TopicPartition(self._place.topic, self._place.partition)]
        (found,) = patience(_PROGRESS_SECONDS)(committed, self._consumer, places)
        return Progress.of(found.offset, found.metadata)

    def _opened(self, generation: int) -> Transaction:
        transaction = Transaction(self.client(generation), self._timeout_ms, self._directory, self._place.topic)
        transaction.open()
        return transaction

    def _move_on(self, stuck: int) -> None:
        following, transaction = self._first_free(stuck + 1)
        progress = self.progress()
        if progress.generation > stuck:  # somebody has moved on already
            _generations[self._key] = progress.generation
            return
        transaction.begin(Rules())
        mark = TopicPartition(
            self._place.topic, self._place.partition, progress.offset or 0, progress.metadata(following)
        )
        transaction.commit(mark, self._consumer.consumer_group_metadata())
        for generation in range(progress.generation, following):
            self._fence(generation)
        _generations[self._key] = following

    def _first_free(self, generation: int) -> tuple[int, Transaction]:
        for number in range(generation, generation + _TRIES):
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
