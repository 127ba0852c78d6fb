"""Who runs on a pair of topics: a claim in Kafka, which one run takes, and by which the one before finds out.

Partition 0 of ``cb.progress`` has, in the consumer group ``checkback-claim:<topic prefix>``, an offset whose metadata
names the checkpoint (its query id), the half topic (Kafka's id) and the run. A fresh checkpoint on topics that another
one has claimed would deliver everything a second time; a second run on one checkpoint replaces the first, as Kafka's
fencing does.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field, fields

from checkback.exceptions import CheckpointMismatchError, TakenOverError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import FENCED, error_code
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, KafkaError, KafkaException, TopicPartition
from checkback.kafka.librdkafka.transactional import StuckError, Transactional, transactional_settings
from checkback.wire.groups import claim_group, metadata_of
from checkback.wire.json_reading import read_object
from streaming.brokers.client import SinkSettings
from streaming.brokers.retrying import retrying, retrying_until

_CALL_SECONDS = 5.0
_STORE_SECONDS = 10.0
_VISIBLE_SECONDS = 30.0


@dataclass(frozen=True)
class Owner:
    """One run of a job."""

    query_id: str
    job: str = ""
    """The setting ``job.name``, for people."""
    half_topic_id: str = ""
    """Kafka's own id of what it reads; empty: not known."""
    page: str = ""
    """Where its status page is; empty: it has none."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, started {self.since}"

    def reads_what(self, other: "Owner") -> bool:
        """Whether both read the same half topic, as far as one can know: it may have been deleted and made again."""
        return not (self.half_topic_id and other.half_topic_id) or self.half_topic_id == other.half_topic_id


class Claim:
    """The claim on the topics of one prefix. Holds a connection: close it."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._group = claim_group(settings.topics)
        # a transaction that a killed run has left open must not block the next run
        options = {"group.id": self._group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
        self._consumer = make_client(Consumer, settings.client(**options))

    def owner(self) -> Owner | None:
        """Return the run that has the topics; None if no run has them.

        Raises:
            KafkaException: Kafka did not answer.
        """
        return retrying()(self._read)

    def take(self, owner: Owner, judge: Callable[[], object] = lambda: None) -> None:
        """Make this run the owner, unless ``judge`` raises an exception.

        No request of an earlier ``take``, even a delayed one, reaches the claim after ``judge`` has read it: the
        transactional id of the claim is fenced before.

        Raises:
            TakenOverError: another run took the topics at the same time.
            KafkaException: Kafka does not store the claim.
        """
        retrying()(self._store, owner, judge)
        # Kafka acknowledges a commit before readers see it
        visible = retrying_until(lambda standing: standing is not None and standing.run == owner.run, _VISIBLE_SECONDS)
        standing = visible(retrying(), self._read) or _UNKNOWN
        if standing.run != owner.run:
            raise self._taken_over(standing)

    def judge(self, own: Owner, *, new_checkpoint: bool) -> None:
        """Refuse a checkpoint on topics that another one reads, unless ``new_checkpoint`` says that it is meant.

        Raises:
            CheckpointMismatchError: the topics are another checkpoint's.
        """
        standing = self.owner()
        if standing is None or new_checkpoint or standing.query_id == own.query_id:
            return
        if standing.reads_what(own):
            raise self._another(standing)

    def refuse_another(self, own: Owner) -> None:
        """Notice that another run has taken the topics. What Kafka cannot say now is asked again the next time.

        Raises:
            TakenOverError: one has.
        """
        try:
            owner = self._read()
        except KafkaException:
            return  # without Kafka nothing can be written anyway
        if owner is not None and owner.run != own.run:
            raise self._taken_over(owner)

    def refuse_others(self, runs: Collection[str]) -> None:
        """Refuse to take the topics back from a run that took them after these; none: whoever has them is no matter.

        Raises:
            TakenOverError: another run has them.
            KafkaException: Kafka did not say.
        """
        owner = self.owner() if runs else None
        if owner is not None and owner.run not in runs:
            raise self._taken_over(owner)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _store(self, owner: Owner, judge: Callable[[], object]) -> None:
        transactional = transactional_settings(self._group, self._settings.transaction_timeout_ms)
        kafka = Transactional(self._settings.client(**transactional))
        kafka.connect(self._settings.topics.progress, _CALL_SECONDS)
        try:
            kafka.fence()
        except StuckError as error:
            raise KafkaException(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS, str(error))) from None
        judge()
        metadata = json.dumps(asdict(owner), separators=(",", ":"))
        try:
            kafka.begin()
            offsets = [TopicPartition(self._settings.topics.progress, 0, 0, metadata)]
            kafka.add_offsets(offsets, self._consumer.consumer_group_metadata(), _STORE_SECONDS)
            kafka.commit(_STORE_SECONDS)
        except KafkaException as error:
            if error_code(error) not in FENCED:
                raise
            # Another one takes the topics, or renews its claim, at this moment: ``judge`` finds out next time which.
            raise KafkaException(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS, str(error))) from None

    def _taken_over(self, owner: Owner) -> TakenOverError:
        return TakenOverError(
            f"Another job has taken over: {owner}. Only one can read {self._settings.topics.half}; if this is "
            "the one to continue, stop that one and start this one again."
        )

    def _another(self, owner: Owner) -> CheckpointMismatchError:
        name = f"job '{owner.job}', " if owner.job else ""
        return CheckpointMismatchError(
            f"What is in {self._settings.topics.half} belongs to another checkpoint ({name}last run: {owner}); this "
            "one would deliver it again. Name that checkpoint's folder in job.checkpoint. If the checkpoint is lost, "
            "or you want everything redelivered, start once with 'checkback run --new-checkpoint'."
        )

    def _read(self) -> Owner | None:
        (stored,) = committed(self._consumer, [TopicPartition(self._settings.topics.progress, 0)])
        return None if stored.offset < 0 else _owner(metadata_of(stored)) or _UNKNOWN


def _owner(metadata: str | None) -> Owner | None:
    """Who a claim names; None when that is not a claim."""
    try:
        stored = read_object(metadata)
        return Owner(**{field.name: stored[field.name] for field in fields(Owner)})
    except (ValueError, KeyError, TypeError):
        return None


# not one of ours: whoever it is, it is not this checkpoint
_UNKNOWN = Owner("unknown", run="unknown", host="unknown host", process=0, since="at an unknown time")
