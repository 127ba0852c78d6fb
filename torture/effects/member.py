"""A consumer of a fault run, ``python -m torture.effects.member FOLDER BOOTSTRAP inbox|none [START_AT]``.

The environment says where its database is, and which order it keeps. It may be killed, or stopped, at any step. SIGTERM
ends it in order. Exit status 75 when Kafka was away as it began, 1 when it ended by itself later.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkback.consumer import ConsumerSettings, Order, PushConsumer, StartAt, fetching
from checkback.exceptions import CheckbackError
from torture.effects.booking import Booking
from torture.effects.clients import WatchedClients
from torture.effects.database import in_file
from torture.effects.orders import GROUP, TOPIC
from torture.effects.steps import Step
from torture.effects.strike import Watch

WITH_INBOX = "inbox"
DATABASE, ORDER = "TORTURE_EFFECTS", "TORTURE_ORDER"
"""Names of variables; an address has a password, so it is no argument."""
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
    suspend=0.5,
    retry_here=1.0,
)
PATIENT = replace(SETTINGS, max_reconsume_times=10, retry_levels=(0.5, 1.0, 2.0), suspend=1.0)
"""With a database that is away for seconds: what was booked, and not heard of, must not die before it is back."""
_SESSION_MS, _HEARTBEAT_MS, _TOPICS_MS, _RECONNECT_MS = int(SESSION_SECONDS * 1000), 500, 5_000, 1_000
_OPTIONS = {
    "session.timeout.ms": _SESSION_MS,
    "heartbeat.interval.ms": _HEARTBEAT_MS,
    "topic.metadata.refresh.interval.ms": _TOPICS_MS,
    "reconnect.backoff.max.ms": _RECONNECT_MS,
}


def watched_consumer(bootstrap_servers: str, booking: Booking, watch: Watch, settings: ConsumerSettings) -> Any:
    """A consumer whose steps the watch is told of."""
    consumer = PushConsumer(
        *(bootstrap_servers, GROUP, booking, TOPIC),
        settings=settings,
        kafka_options=_OPTIONS,
        clients=WatchedClients(watch),
    )
    judging: Any = consumer._judging  # noqa: SLF001  (between its listener's word and the window there is nothing public)
    ended = judging._ended  # noqa: SLF001  (see above)

    def noted(parcel: Any, success: bool) -> None:  # noqa: FBT001  (as the consumer's own)
        ended(parcel, success)
        if success:
            watch(Step.SUCCESS_NOTED)

    judging._ended = noted  # noqa: SLF001  (see above)
    return consumer


def _settings(database: str, start_at: str, order: str) -> ConsumerSettings:
    usual = SETTINGS if database.startswith("sqlite") else PATIENT
    return replace(usual, start_at=StartAt(start_at), order=Order(order))


def main(folder: str, bootstrap_servers: str, inbox: str, start_at: str = StartAt.FIRST) -> None:
    """Consume until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    logging.getLogger("kafka.coordinator").setLevel(logging.INFO)
    fetching.CALM_SECONDS = CALM_SECONDS  # type: ignore[attr-defined]  # no setting of anybody's but ours, here
    stopping = threading.Event()
    faulthandler.register(STACKS, all_threads=True)
    watch = Watch(Path(folder), "consumer")
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = os.environ.get(DATABASE) or in_file(Path(folder)).url
    booking = Booking(Path(folder), database, watch, with_inbox=inbox == WITH_INBOX)
    settings = _settings(database, start_at, os.environ.get(ORDER, Order.NONE))
    consumer = watched_consumer(bootstrap_servers, booking, watch, settings)
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
