"""Who runs under a job's name: a claim in Kafka, which one run takes, and by which the one before finds out.

Partition 0 of ``cb.progress`` has, in the consumer group ``checkback-<job.name>``, an offset whose metadata names the
checkpoint (its query id) and the run. A fresh checkpoint under a name that another checkpoint has claimed would deliver
everything a second time; a second run on one checkpoint replaces the first, as Kafka's fencing does.
"""

import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass, field, fields

from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkback.exceptions import CheckpointMismatchError, TakenOverError
from streaming.partition_writer import SinkSettings
from streaming.patience import committed, patience


@dataclass(frozen=True)
class Owner:
    """One run of a job."""

    query_id: str
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, started {self.since}"


class Claim:
    """The claim on one job name. Holds a connection: close it."""

    def __init__(self, settings: SinkSettings, name: str) -> None:
        group = {"group.id": f"checkback-{name}", "enable.auto.commit": False}
        self._consumer = Consumer(settings.client(**group))
        self._topic = settings.topics.progress
        self._name = name

    def owner(self) -> Owner | None:
        """Who has the name; None when nobody has.

        Raises:
            KafkaException: Kafka did not say.
        """
        return patience()(self._read)

    def take(self, owner: Owner) -> None:
        """Make this run the owner, whoever was before."""
        metadata = json.dumps(asdict(owner), separators=(",", ":"))
        offsets = [TopicPartition(self._topic, 0, 0, metadata)]
        patience()(self._consumer.commit, offsets=offsets, asynchronous=False)

    def judge(self, query_id: str, *, claim_name: bool) -> None:
        """Refuse a checkpoint under a name that another one has, unless ``claim_name`` says that it is meant.

        Raises:
            CheckpointMismatchError: the name is another checkpoint's.
        """
        owner = self.owner()
        if owner is None or owner.query_id == query_id or claim_name:
            return
        raise CheckpointMismatchError(
            f"The job name '{self._name}' belongs to another checkpoint (last run: {owner}); this one would deliver "
            "once more what the half topic still has. Name that checkpoint's folder in job.checkpoint, or, if "
            "it is lost or this is meant, start once with 'checkback run --claim-name'."
        )

    def refuse_another(self, own: Owner) -> None:
        """Notice that another run has taken the name. What Kafka cannot say now is asked again the next time.

        Raises:
            TakenOverError: one has.
        """
        try:
            owner = self._read()
        except KafkaException:
            return  # without Kafka nothing can be written anyway
        if owner is not None and owner.run != own.run:
            raise TakenOverError(
                f"Another job has taken over: {owner}. Only one can run under the name '{self._name}' on this "
                "checkpoint; if this is the one to go on, stop that one and start this one again."
            )

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _read(self) -> Owner | None:
        (found,) = committed(self._consumer, [TopicPartition(self._topic, 0)])
        return None if found.offset < 0 else _owner(found.metadata or "")


def _owner(metadata: str) -> Owner:
    try:
        stored = json.loads(metadata)
        return Owner(**{one.name: stored[one.name] for one in fields(Owner)})
    except (ValueError, KeyError, TypeError):  # not one of ours: whoever it is, it is not this checkpoint
        return Owner("unknown", "unknown", "unknown host", 0, "at an unknown time")
