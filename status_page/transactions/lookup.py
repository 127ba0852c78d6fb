"""Transactions in doubt and parked messages, as the page finds them: what a job starts and stops."""

from functools import partial
from typing import Any

from checkback.kafka.topic_reading import reading_consumer
from conf import Settings
from status_page.transactions.following import Follower
from status_page.transactions.index import Index
from status_page.transactions.standing import ListStanding, ReadingProgress

_FETCH: dict[str, Any] = {
    "fetch_max_wait_ms": 1_000,  # Kafka answers nothing else on this connection meanwhile
    "fetch_max_bytes": 4 * 1024 * 1024,  # of content that is thrown away: but for the head of what does not fit
    "metadata_max_age_ms": 10_000,  # within which a topic that was made again is noticed
}


class Transactions:
    """Follows ``cb.status`` and ``cb.parked`` from :meth:`start` to :meth:`stop`, which may come again and again."""

    def __init__(self, settings: Settings) -> None:
        kafka = settings.kafka
        connect = partial(reading_consumer, kafka.bootstrap_servers, options={**_FETCH, **kafka.python_client})
        self.index = Index()
        """What was read."""
        topics, rules = kafka.topics, settings.transactions
        longest_ms = max(rules.check_interval_max, rules.unreachable_backoff_max, rules.check_answer_ttl)
        rewritten = {topics.status: longest_ms / 1000, topics.parked: rules.parked_ttl / 1000}
        self._progress = ReadingProgress(rewritten=rewritten)
        self._follower = Follower(topics, self.index, connect, self._progress)

    def start(self) -> None:
        """Begin to read; returns at once, also while Kafka is away."""
        self._follower.start()

    def stop(self) -> None:
        """End within two seconds, and give the temporary file back."""
        self._follower.stop()
        self.index.close()

    def standing(self) -> ListStanding:
        """How far the lists can be relied on now."""
        return self._progress.standing()
