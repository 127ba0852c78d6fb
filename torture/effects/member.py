"""A consumer of a fault run, ``python -m torture.effects.member FOLDER BOOTSTRAP TRANSPORT inbox|none [START_AT]``.

It may be killed, or stopped, at any step. SIGTERM ends it in order. Exit status 75 when Kafka was away as it began, 1
when it ended by itself later.
"""

import faulthandler
import logging
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkback.consumer import ConsumerSettings, PushConsumer, StartAt, fetching
from checkback.consumer.clients import clients_of
from checkback.exceptions import CheckbackError
from checkback.transports import TransportName
from torture.effects.booking import Booking
from torture.effects.clients import WatchedClients
from torture.effects.orders import GROUP, TOPIC
from torture.effects.steps import Step
from torture.effects.strike import Watch

WITH_INBOX = "inbox"
SESSION_SECONDS = 4.0
TRY_AGAIN = 75
STACKS = signal.SIGUSR1
"""Has it print what each of its threads does."""
CALM_SECONDS = 6.0
"""A reader that has lived for so long is well; in earnest it is 20 s, in which the next two rounds have come."""
SETTINGS = ConsumerSettings(
    concurrency=4,
    start_at=StartAt.FIRST,
    retry_levels=(0.5, 1.0),
    first_retry_level=1,
    max_reconsume_times=2,
    retry_partitions=2,
    store_interval=1.0,
    finish_wait=2.0,
    retry_here=1.0,
)
_SESSION_MS, _HEARTBEAT_MS, _TOPICS_MS, _RECONNECT_MS = int(SESSION_SECONDS * 1000), 500, 5_000, 1_000
_OPTIONS: dict[str, dict[str, Any]] = {
    TransportName.KAFKA_PYTHON: {
        "session_timeout_ms": _SESSION_MS,
        "heartbeat_interval_ms": _HEARTBEAT_MS,
        "metadata_max_age_ms": _TOPICS_MS,
        "reconnect_backoff_max_ms": _RECONNECT_MS,
    },
    TransportName.CONFLUENT: {
        "session.timeout.ms": _SESSION_MS,
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "topic.metadata.refresh.interval.ms": _TOPICS_MS,
        "reconnect.backoff.max.ms": _RECONNECT_MS,
    },
}


def watched_consumer(
    folder: Path,
    bootstrap_servers: str,
    transport: str,
    watch: Watch,
    *,
    inbox: bool,
    start_at: str = StartAt.FIRST,
) -> Any:
    """A consumer whose steps the watch is told of."""
    consumer = PushConsumer(
        *(bootstrap_servers, GROUP, Booking(folder, watch, with_inbox=inbox), TOPIC),
        settings=replace(SETTINGS, start_at=StartAt(start_at)),
        transport=WatchedClients(clients_of(transport), watch),
        kafka_options=_OPTIONS[transport],
    )
    judging: Any = consumer._judging  # noqa: SLF001  (between its listener's word and the window there is nothing public)
    ended = judging._ended  # noqa: SLF001  (see above)

    def noted(parcel: Any, success: bool) -> None:  # noqa: FBT001  (as the consumer's own)
        ended(parcel, success)
        if success:
            watch(Step.SUCCESS_NOTED)

    judging._ended = noted  # noqa: SLF001  (see above)
    return consumer


def main(folder: str, bootstrap_servers: str, transport: str, inbox: str, start_at: str = StartAt.FIRST) -> None:
    """Consume until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    logging.getLogger("kafka.coordinator").setLevel(logging.INFO)
    fetching.CALM_SECONDS = CALM_SECONDS  # type: ignore[attr-defined]  # no setting of anybody's but ours, here
    stopping = threading.Event()
    faulthandler.register(STACKS, all_threads=True)
    watch = Watch(Path(folder), transport)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = watched_consumer(
        Path(folder), bootstrap_servers, transport, watch, inbox=inbox == WITH_INBOX, start_at=start_at
    )
    try:
        consumer.start()
    except CheckbackError as error:
        print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
        sys.exit(TRY_AGAIN)
    while not stopping.wait(0.1):
        if consumer.wait(0):
            break
    watch.closing = True
    consumer.close()
    consumer.raise_if_dead()


if __name__ == "__main__":
    main(*sys.argv[1:])
