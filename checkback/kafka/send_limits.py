"""Producer groups over a limit: the job stores a notice of each in Kafka, which their producers read while they send.

By the roles' rights only the job can store one: see :func:`~checkback.wire.groups.limit_group`.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from math import inf
from time import monotonic, time_ns
from typing import Any

from checkback.exceptions import GroupOverLimitError
from checkback.kafka.client_options import of_reaching
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from checkback.wire.groups import limit_group
from checkback.wire.protocol import Topics
from checkback.wire.rights import not_allowed, of_limits

_LOGGER = logging.getLogger(__name__)
_PAUSE_SECONDS = 10.0
_PAUSE_WITHOUT_RIGHTS_SECONDS = 300.0
_MOST_GROUPS = 1_000
"""Of one look: clients of a gateway may make up names."""

Notice = tuple[int, str]
"""Until when, in ms since 1970, and why."""
ReadNotices = Callable[[str, Collection[str]], Mapping[str, Notice]]
"""Those of some groups, stored with the topic that is named; called in a thread."""


class SendLimits:
    """Refuses half messages that the job would reject after their local transaction.

    Without ``read`` none; ``group``: the only one that sends, empty: any does.
    """

    def __init__(self, read: ReadNotices | None, own: Topics, group: str = "") -> None:
        self._read, self._own, self._group = read or (lambda *_: {}), own, group
        self._notices: dict[str, Notice] = {}
        self._sending: set[str] = set()
        self._next, self._warned = inf if read is None else 0.0, False

    def refuse(self, group: str) -> None:
        """Look up a group, without waiting, before a half message of it is written.

        Raises:
            GroupOverLimitError: the job takes no half messages of the group now.
        """
        if len(self._sending) < _MOST_GROUPS:
            self._sending.add(group)
        if monotonic() >= self._next:
            self._next = inf
            with suppress(RuntimeError):  # a process that is about to end starts no threads
                threading.Thread(target=self._look, name="checkback-limits", daemon=True).start()
        until_ms, why = self._notices.get(group, (0, ""))
        if time_ns() // 1_000_000 < until_ms:
            raise GroupOverLimitError(
                f"The job takes no half messages of this group now: {why}. Nothing was written: run no local "
                "transaction, and send it again later."
            )

    def _look(self) -> None:
        groups, self._sending = self._sending, set()
        pause, now_ms = _PAUSE_SECONDS, time_ns() // 1_000_000
        try:
            notices = {**self._notices, **dict.fromkeys(groups, (0, "")), **self._read(self._own.progress, groups)}
            self._notices = {name: notice for name, notice in notices.items() if notice[0] > now_ms}
        except Exception as error:  # of either client
            _LOGGER.debug("Kafka does not say which producer groups are over a limit", exc_info=error)
            if "uthorization" in repr(error):
                pause = _PAUSE_WITHOUT_RIGHTS_SECONDS
                if not self._warned:
                    why = not_allowed("the producer", error, [*of_limits(self._own, self._group)])
                    _LOGGER.warning("Above a limit of its group, what is sent is rejected, not refused: %s", why)
                self._warned = True
        self._next = monotonic() + pause


def read_notices(servers: str, options: Mapping[str, Any], topic: str, groups: Collection[str]) -> dict[str, Notice]:
    """The notices that there are of these groups, with kafka-python."""
    place, client = TopicPartition(topic, 0), {"bootstrap_servers": servers}
    with closing(make_client(KafkaAdminClient, client, of_reaching(options), SHARED)) as admin:
        offsets = admin.list_group_offsets({limit_group(group): [place] for group in groups})
    stored = {group: offsets[limit_group(group)][place] for group in groups}
    return {group: (at.offset, at.metadata) for group, at in stored.items() if at.offset > 0}


def store_notices(servers: str, options: Mapping[str, Any], topic: str, notices: Mapping[str, Notice]) -> None:
    """Store notices; one until 0 takes back what was stored before.

    Raises:
        KafkaError, KafkaUnreachableError: Kafka does not store all of them.
    """
    place, client = TopicPartition(topic, 0), {"bootstrap_servers": servers}
    with closing(make_client(KafkaAdminClient, client, of_reaching(options), SHARED)) as admin:
        for group, notice in notices.items():
            offsets = {place: OffsetAndMetadata(*notice, -1)}
            (error,) = admin.alter_group_offsets(limit_group(group), offsets).values()
            if error.errno:
                raise error(limit_group(group))
