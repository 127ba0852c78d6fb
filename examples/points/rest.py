"""Whether anything is still on its way from the shop to the points: only then is what is missing lost, and not late."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple, Self

from checkback.consumer import PullConsumer, PullStatus, TopicPartition
from checkback.consumer.resetting.group_offsets import GroupOffsets
from checkback.wire.protocol import Topics
from examples.points.service import GROUP, TOPIC

_BATCHES = 2  # the first may have begun before we looked
_AT_ONCE = 1_000


class Look(NamedTuple):
    """All of the way at one moment."""

    waits: str
    """What is still on its way; empty: nothing that can be seen."""
    ends: Mapping[TopicPartition, int]
    """Where the topics end that an order passes through."""
    batch: float
    """Of the job, the last one that has ended: what it says of itself is as of then."""


class Rest:
    """Nothing waits, nothing has been written since, and the job has looked again: nothing will come any more."""

    def __init__(self) -> None:
        self._since: Look | None = None

    def reached(self, look: Look) -> bool:
        """Whether this look proves it, after those before."""
        if look.waits:
            self._since = None
        elif self._since is None or look.ends != self._since.ends:
            self._since = look
        else:
            return look.batch >= self._since.batch + _BATCHES
        return False


class Way:
    """An order's way through Kafka, from outside; use it as a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers, self._topics = bootstrap_servers, Topics()

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._pull = parts.enter_context(PullConsumer(self._servers))
            self._points = parts.enter_context(GroupOffsets(self._servers, GROUP))
            self._later = parts.enter_context(GroupOffsets(self._servers, self._topics.later))
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def look(self, job: Mapping[str, float]) -> Look:
        """Look at all of it. ``job``: its metrics, each summed up over its labels; empty when it does not answer."""
        retry, later = self._topics.retry(GROUP), self._topics.later
        waiting = {
            "orders that nobody has booked": self._unread(self._points, TOPIC),
            "failed orders that nobody has tried again": self._unread(self._points, retry),
            "failed orders on their way to the job": self._unread(self._later, later),
        }
        said = [*_said(waiting), *in_job(job)]
        topics = (self._topics.half, self._topics.op, later, TOPIC, retry)
        places = [TopicPartition(topic, number) for topic in topics for number in self._pull.partitions(topic)]
        ends = {place: found.maximum for place, found in self._points.offsets(places).items()}
        return Look(", ".join(said), ends, job.get("checkback_batch", 0))

    def dead_letters(self) -> int:
        """Orders that the points service has given up."""
        topic = self._topics.dead(GROUP)
        return sum(self._behind(TopicPartition(topic, number), 0) for number in self._pull.partitions(topic))

    def _unread(self, group: GroupOffsets, topic: str) -> int:
        stored = group.stored()
        places = [TopicPartition(topic, number) for number in self._pull.partitions(topic)]
        return sum(self._behind(place, stored.get(place, 0)) for place in places)

    def _behind(self, place: TopicPartition, offset: int) -> int:
        """Messages from there on. Not the end less the offset: transactions' ends have offsets, too."""
        count = 0
        while True:
            found = self._pull.pull(*place, offset, _AT_ONCE)
            if found.status not in {PullStatus.FOUND, PullStatus.OFFSET_FOUND_NULL}:
                return count
            count, offset = count + len(found.messages), found.next_offset


def in_job(job: Mapping[str, float]) -> list[str]:
    """What is on its way in the job, or not known to be in it."""
    if "checkback_batch" not in job:
        return ["a job that does not answer, or has ended no batch yet"]
    backlog, undecided = "half messages and ops that the job has not read", "undecided transactions"
    waiting = {
        backlog: job.get("checkback_backlog_records", 0),
        undecided: job.get("checkback_open_transactions", 0),
        "failed orders that wait for their time": job.get("checkback_delayed_messages", 0),
    }
    # Of what is open there is no sample before the job has counted its state, and none where there is nothing; of the
    # state's size there is one once it has been counted.
    told_by = {backlog: "checkback_backlog_records", undecided: "checkback_state_bytes"}
    unknown = [f"an unknown number of {what}" for what, metric in told_by.items() if metric not in job]
    return [*_said(waiting), *unknown]


def _said(waiting: Mapping[str, float]) -> list[str]:
    return [f"{number:.0f} {what}" for what, number in waiting.items() if number]
