"""Stores notices of groups over a limit in Kafka, so that their producers do not send what the job would reject."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event

from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.send_limits import Notice, store_notices
from conf import KafkaSettings

_LOGGER = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_VALID_MS, _RENEWED_BEFORE_MS = 300_000, 240_000
_MOST_GROUPS = 1_000


def keep_notices(
    kafka: KafkaSettings, barred: Callable[[], Mapping[str, str]], now_ms: Callable[[], int], ended: Event
) -> None:
    """Store notices until ``ended``. ``barred`` gives the reasons by group, ``now_ms`` Kafka's time."""
    stored: dict[str, Notice] = {}
    while not ended.wait(_LOOK_SECONDS):
        try:
            if due := due_notices(stored, barred(), now_ms()):
                store_notices(kafka.bootstrap_servers, kafka.python_client, kafka.topics.progress, due)
                stored = {group: notice for group, notice in {**stored, **due}.items() if notice[0]}
        except (KafkaError, CheckbackError) as error:  # tried again
            _LOGGER.debug("Kafka does not store which groups are over a limit", exc_info=error)


def due_notices(stored: Mapping[str, Notice], barred: Mapping[str, str], now_ms: int) -> dict[str, Notice]:
    """Return the notices to store now, given those that are stored and the groups that are barred."""
    sharing = Counter(barred.values())
    # an account may make up names of groups: those of others come first
    first = sorted(barred, key=lambda group: (sharing[barred[group]], group))[:_MOST_GROUPS]
    old = [group for group in first if stored.get(group, (0,))[0] < now_ms + _RENEWED_BEFORE_MS]
    ended: dict[str, Notice] = dict.fromkeys(stored.keys() - barred.keys(), (0, ""))
    return ended | {group: (now_ms + _VALID_MS, barred[group]) for group in old}
