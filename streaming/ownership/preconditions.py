"""What the driver makes sure of around each batch of a running job."""

import logging
import time
from collections.abc import Mapping

from checkback.exceptions import JobStoppedError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import AdminClient, KafkaException
from checkback.kafka.librdkafka.topics import TopicDescription, described
from checkback.operations.topics import few_ops
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.folder import deleted, recreated
from streaming.checkpoint.offset_log import Entry
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import JobClock

_LOGGER = logging.getLogger(__name__)
_TOPICS_SECONDS = 5.0
_LONG_SECONDS = 0.5


class BatchPreconditions:
    """Stops the job before a batch does harm.

    Costs 2 ms a batch for the claim, and 2 ms every five seconds for the topics.
    """

    def __init__(
        self, settings: SinkSettings, claim: Claim, owner: Owner, topics: Mapping[str, str], clock: JobClock
    ) -> None:
        self._claim = claim
        self._owner = owner
        self._topics = topics
        self._clock = clock
        self._admin = make_client(AdminClient, settings.client())
        self._missing: set[str] = set()
        self._half, self._op = settings.topics.half, settings.topics.op
        self.few_ops = ""
        """Why transactions on some half partitions cannot be ended; empty: all can, as far as is known."""
        self._looked_at = self._asked_at = time.monotonic()

    @property
    def run(self) -> str:
        """What the claim names this run."""
        return self._owner.run

    def before(self, entry: Entry) -> int:
        """Refuse a batch of which nothing has been evaluated yet.

        Returns:
            What time it is, in ms by Kafka's clock: records are dated by it. A broker refuses those that are dated more
            than an hour ahead (``message.timestamp.after.max.ms``), and deletes at once those of long ago.

        Raises:
            TakenOverError: another run has taken over.
            CheckpointMismatchError: a topic was deleted, and perhaps recreated.
            JobStoppedError: the batch is dated wrongly: Spark would drop its rows as late, or every message's time
                would be up.
        """
        self.refuse_another()
        self.refuse_other_topics()
        if entry.late:
            raise JobStoppedError(
                f"The clock stepped back by more than job.clock_tolerance: batch {entry.number} is dated "
                f"{(entry.watermark_ms - entry.time_ms) / 1000:.0f} s before the watermark, and Spark would drop its "
                "rows as late. Nothing is lost: set the clock, then start again."
            )
        self._clock.compare_daily()
        self._clock.refuse_ahead(entry.number, entry.time_ms)
        return self._clock.now_ms()

    def after(self) -> None:
        """Refuse to end a batch, long after it began, on a checkpoint that another run has taken over meanwhile.

        That one has read the commit log by now: an entry it does not expect would stop it, too.

        Raises:
            TakenOverError: one has.
        """
        if time.monotonic() - self._asked_at >= _LONG_SECONDS:
            self.refuse_another()

    def refuse_another(self) -> None:
        """See :meth:`streaming.ownership.claim.Claim.refuse_another`."""
        self._claim.refuse_another(self._owner)
        self._asked_at = time.monotonic()

    def renew(self) -> None:
        """Take the claim again, so that Kafka does not let it expire.

        Raises:
            TakenOverError: another run has it by now.
        """
        self.refuse_another()
        self._claim.take(self._owner, lambda: self._claim.refuse_others([self._owner.run]))

    def refuse_other_topics(self) -> None:
        """Notice that the half or the op topic is not the one this checkpoint has read; looks every five seconds, once.

        Raises:
            CheckpointMismatchError: it was deleted, and perhaps recreated.
        """
        now = time.monotonic()
        if now - self._looked_at < _TOPICS_SECONDS:
            return
        self._looked_at = now
        try:
            described_now = described(self._admin, self._topics)
        except KafkaException:
            return  # Kafka is away; the topics are looked at when it is back
        found = {name: one.id for name, one in described_now.items()}
        self._warn_of_few_ops(described_now)
        for name, known in self._topics.items():
            if known and found.get(name) and found[name] != known:
                raise recreated(name)
        missing = self._topics.keys() - found.keys()
        for name in missing & self._missing:  # twice in a row: a broker that starts knows nothing for a moment
            raise deleted(name)
        self._missing = missing

    def _warn_of_few_ops(self, found: Mapping[str, TopicDescription]) -> None:
        """Half partitions that were grown first: nobody can end a transaction that lies on a new one."""
        counts = tuple(found[name].partitions for name in (self._half, self._op) if name in found)
        if len(counts) < 2:
            return
        sentence = few_ops(self._half, self._op, *counts) if counts[0] > counts[1] else ""
        if sentence not in {"", self.few_ops}:
            _LOGGER.warning(sentence)
        self.few_ops = sentence
