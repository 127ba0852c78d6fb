"""The thread that follows ``cb.status`` and ``cb.parked``: it goes on for ever, whatever becomes of Kafka or the disk.

It costs next to nothing while nothing comes: a fetch that waits at the broker, and every ten seconds a question where
the topics begin and end, which is also how it knows that Kafka is there.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.wire.protocol import Topics
from status_page.transactions.index import Index
from status_page.transactions.reading import IndexReader
from status_page.transactions.standing import ReadingProgress

_LOGGER = logging.getLogger(__name__)
_WAIT_MS = 500
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_REST_SECONDS = 0.2
"""The longest pause after records that were taken in: whoever reads a backlog leaves the job half of the time."""
_STOP_SECONDS = 2.0
_CLOSE_MS = 1_000


class Follower:
    """``connect`` opens a consumer without a group."""

    def __init__(self, topics: Topics, index: Index, connect: Callable[[], Any], progress: ReadingProgress) -> None:
        self._topics = topics
        self._index = index
        self._connect = connect
        self._progress = progress
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread of its own. Harmless when it runs."""
        if self._thread is None:
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="status-page", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, within two seconds; a thread that waits for a Kafka that is away ends by itself a little later."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is not None:
            thread.join(_STOP_SECONDS)

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
                self._read(IndexReader(self._topics, self._index, consumer, self._progress), stopping)
            finally:
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
        except (KafkaError, CheckbackError, OSError) as error:
            return str(error) or repr(error)
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._index.clear()
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
