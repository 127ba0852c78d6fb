"""What the page and its API show of a job: plain data, which the job gives. Times are ms since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class FlowPoint:
    """What happened in one stretch of time."""

    time_ms: int
    """Where it begins."""
    half: int = 0
    """Half messages of producers."""
    committed: int = 0
    by_lane: int = 0
    """Of the committed: what their producer had delivered itself."""
    rolled_back: int = 0
    checked: int = 0
    parked: int = 0
    rejected: int = 0
    retried: int = 0
    """Half messages that the job wrote itself, because a topic did not take the message."""


@dataclass(frozen=True)
class PartitionBacklog:
    """Records of a half or op partition that the job has not taken in."""

    topic: str
    partition: int
    records: int


@dataclass(frozen=True)
class HeldBackPartition:
    """A partition that the job reads in which somebody's open Kafka transaction hides what lies behind it."""

    topic: str
    partition: int
    seconds: float
    writer: str = ""
    """Whose transaction it is, as far as Kafka says: known after 10 s."""


@dataclass(frozen=True)
class HeldMessages:
    """Committed messages that their real topic does not take now; the job tries them again."""

    topic: str
    number: int
    """Of those that this run has tried."""
    reason: str
    """Of the last try."""
    next_ms: int
    """When some of them are tried next."""


@dataclass(frozen=True)
class BatchFacts:
    """The last batch that has ended."""

    number: int
    ended_ms: int
    seconds: float
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, in the order they ran."""
    records: int = 0
    records_per_second: float = 0.0


@dataclass(frozen=True)
class OpenOfTopic:
    """Undecided transactions of one group for one real topic."""

    topic: str
    open: int
    oldest_ms: int
    """When the oldest of them was taken in."""


@dataclass(frozen=True)
class EndpointFacts:
    """A check endpoint, as the check service in this process sees it."""

    url: str
    state: str
    """``well``; ``skipped``: it failed five times and has not answered since, or fell silent; ``tried``: it failed
    lately, and is asked with the next check. Where checks are answered elsewhere, ``well`` says that it is heard from,
    no more."""
    heard_seconds: float | None = None
    """Since its last heartbeat; None for one that is named in the settings."""
    reason: str = ""
    """Why it is not well."""


MOST_GROUPS = 1_000
"""So many a job tells of."""


@dataclass(frozen=True)
class GroupFacts:
    """A producer group."""

    group: str
    open: int | None = 0
    """None, here and below: not known yet."""
    open_bytes: int | None = 0
    delayed: int | None = 0
    parked: int | None = 0
    topics: tuple[OpenOfTopic, ...] = ()
    endpoints: tuple[EndpointFacts, ...] = ()
    waiting: int = 0
    """Checks that wait in the check service of this process, or are under way."""
    barred: str = ""
    """Why its new half messages are rejected; empty: they are not."""
    unasked: str = ""
    """Why nobody of it can be asked; empty: somebody can, or that is not known. For a topic: :meth:`unasked_for`."""
    answers_for: tuple[str, ...] | None = None
    """Real topics for which one of its endpoints is asked; None: all, or that is not known."""

    def unasked_for(self, topic: str) -> str:
        """Why nobody of it can be asked about transactions of a topic; empty: likewise."""
        if self.unasked or self.answers_for is None or topic in self.answers_for:
            return self.unasked
        return f"no working endpoint for {topic}"

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest undecided one was taken in; None when there is none, or it is not known."""
        if (self.open or 0) > sum(one.open for one in self.topics):  # of some of them nothing else is known
            return None
        return min((one.oldest_ms for one in self.topics), default=None)


class TopicInDoubt(NamedTuple):
    """How many of one group and topic are in doubt."""

    group: str
    topic: str
    number: int
    unasked: str = ""
    """Why nobody can be asked about them: somebody has to do something; empty: somebody can, or that is not known."""


def topics_in_doubt(counts: Mapping[tuple[str, str], int], groups: Mapping[str, GroupFacts]) -> list[TopicInDoubt]:
    """How many of which group and topic, those with most first, and why nobody can be asked."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [TopicInDoubt(*of, number, groups[of[0]].unasked_for(of[1])) for of, number in ordered if number]


@dataclass(frozen=True)
class StepFacts:
    """A step of the start."""

    name: str
    began_ms: int
    seconds: float | None = None
    """None: it is under way."""


@dataclass(frozen=True)
class RefusedMessages:
    """What the access policy has refused since the job was started, of one group for one topic."""

    group: str
    topic: str
    """Empty: of ops."""
    number: int
    reason: str
    """The last one's."""
    last_ms: int


@dataclass(frozen=True)
class JobFacts:
    """A job at a moment."""

    job: str
    version: str
    run: str
    """The id of this run."""
    host: str
    kafka: str
    topic_prefix: str
    checkpoint: str
    started_ms: int
    now_ms: int
    running_ms: int | None = None
    """Since when batches are begun; None: the job is still starting."""
    steps: tuple[StepFacts, ...] = ()
    """Of the start, up to the end of the first batch, in their order."""
    batch: BatchFacts | None = None
    """None until the first batch has ended."""
    batches: tuple[BatchFacts, ...] = ()
    """The last ones, the newest last; at most 100."""
    backlog: tuple[PartitionBacklog, ...] | None = None
    """From Kafka's ends, at most some seconds old, and from what the query has taken in; None: not known yet."""
    batch_limit: int | None = None
    """Records that the next batch reads at most; None: not known yet."""
    held_back: tuple[HeldBackPartition, ...] = ()
    held: tuple[HeldMessages, ...] = ()
    """By topic, those with most first. What was held before the start is known with its next try, within 10 min."""
    held_known: bool = True
    """Whether that is all of them."""
    state_bytes: int | None = None
    """None: not known yet. So after a start, for some minutes, unless it was the first."""
    counted: bool = False
    """Whether it is known what is open. Not so after a start, for some minutes."""
    groups: tuple[GroupFacts, ...] = ()
    """At most 1,000, those with most that is open or parked first."""
    flow: tuple[FlowPoint, ...] = ()
    """The last hour, or since the start, oldest first, in stretches of 30 s; none until the first batch has ended."""
    checks_in_job: bool = True
    """Whether the check service runs in this process; else endpoints and ``waiting`` are not known here."""
    endpoints_known: bool = False
    """Whether all endpoints are known: then a group that is not in ``groups``, or has none there, has none."""
    policy_wrong: str = ""
    """Why the file of ``access.policy`` as it is now is not in force; empty: it is."""
    kafka_away_ms: int | None = None
    """Since when the job has been waiting for Kafka, without a query; None: it is not."""
    checks_stalled: str = ""
    """Why checks wait and none is answered; empty: some are, or none waits."""
    few_ops: str = ""
    """Why transactions on some half partitions cannot be ended; empty: all can."""
    refused: tuple[RefusedMessages, ...] = ()
    """By the access policy, the newest first; at most 20."""
    notes: tuple[str, ...] = ()
    """What whoever is on call should read first: sentences."""
    in_doubt: int | None = None
    """Here and below, of the page's lists; None: they are not complete yet."""
    in_doubt_oldest_ms: int | None = None
    """When the oldest of them was taken in."""
    parked: int | None = None


class JobView(Protocol):
    """The job, as the page asks it. Called from the page's threads; answers at once."""

    def facts(self) -> JobFacts:
        """How it stands now."""
