"""Transactions in doubt and parked messages, as the page finds them: a thread follows ``cb.status`` and ``cb.parked``.

It goes on for ever, whatever becomes of Kafka or the disk, and costs next to nothing while nothing comes: a fetch that
waits at the broker, and every ten seconds a question where the topics begin and end, which is also how it knows that
Kafka is there.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.topic_reading import reading_consumer
from conf import Settings
from status_page.transactions.index import Index
from status_page.transactions.reading import IndexReader, ListStanding, ReadingProgress

_LOGGER = logging.getLogger(__name__)
_FETCH: dict[str, Any] = {
    "fetch_max_wait_ms": 1_000,  # Kafka answers nothing else on this connection meanwhile
    "fetch_max_bytes": 4 * 1024 * 1024,  # of content that is thrown away: but for the head of what does not fit
    "metadata_max_age_ms": 10_000,  # within which a topic that was made again is noticed
}
_WAIT_MS = 500
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_REST_SECONDS = 0.2
"""The longest pause after records that were taken in: whoever reads a backlog leaves the job half of the time."""
_STOP_SECONDS = 2.0
_CLOSE_MS = 1_000


class Transactions:
    """Follows the topics from :meth:`start` to :meth:`stop`, which may come again and again.

    ``connect`` opens a consumer without a group; by default one of the settings' Kafka.
    """

    def __init__(self, settings: Settings, connect: Callable[[], Any] | None = None) -> None:
        kafka = settings.kafka
        options = {**_FETCH, **kafka.python_client}
        self._connect = connect or partial(reading_consumer, kafka.bootstrap_servers, options=options)
        self.index = Index()
        """What was read."""
        self._topics, rules = kafka.topics, settings.transactions
        longest_ms = max(rules.check_interval_max, rules.unreachable_backoff_max, rules.check_answer_ttl)
        rewritten = {self._topics.status: longest_ms / 1000, self._topics.parked: rules.parked_ttl / 1000}
        self._progress = ReadingProgress(rewritten=rewritten)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read in a thread of its own; returns at once, also while Kafka is away. Harmless when it runs."""
        if self._thread is None:
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="status-page", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End within two seconds, and give the temporary file back.

        A thread that waits for a Kafka that is away ends by itself a little later.
        """
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is not None:
            thread.join(_STOP_SECONDS)
        self.index.close()

    def standing(self) -> ListStanding:
        """How far the lists can be relied on now."""
        return self._progress.standing()

    def _run(self, stopping: threading.Event) -> None:
        failures = 0
        while not stopping.is_set():
            began = self._progress.clock()
            problem = self._follow(stopping)
            if stopping.is_set():
                return
            self._progress.away(problem)
            lasted = self._progress.clock() - began
            failures = 1 if lasted > 2 * _RETRY_SECONDS[-1] else failures + 1
            stopping.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1])

    def _follow(self, stopping: threading.Event) -> str:
        """Follow until something is wrong: what it was."""
        try:
            consumer = self._connect()
            try:
                self._read(IndexReader(self._topics, self.index, consumer, self._progress), stopping)
            finally:
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
        except (KafkaError, CheckbackError, OSError) as error:
            return str(error) or repr(error)
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self.index.clear()
            return f"What was read cannot be kept: {error}. Make room where temporary files go (SQLITE_TMPDIR)."
        except Exception as error:  # the job goes on, and so does the page, which says so
            _LOGGER.exception("The status page cannot follow its topics, and tries again.")
            return repr(error)
        return ""

    def _read(self, reading: IndexReader, stopping: threading.Event) -> None:
        clock = self._progress.clock
        reading.begin()
        while not stopping.is_set():
            began = clock()
            some = reading.step(_WAIT_MS)
            took = clock() - began
            if some:
                stopping.wait(min(_REST_SECONDS, took))
            elif took < _WAIT_MS / 2000:  # there was nothing to wait for: no such topics, or Kafka is away
                stopping.wait(_WAIT_MS / 1000)
