"""How clients of the job reach Kafka."""

from dataclasses import dataclass, field
from typing import Any, Self

from checkback.kafka.librdkafka.transactional import transactional_settings
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.protocol import Topics
from conf.settings import AccessSettings, Settings
from streaming.batch.failpoints import FailpointHook, no_failpoint

ANSWER_BYTES = MOST_RECORD_BYTES + (1 << 20)
"""``receive.message.max.bytes`` of who reads our topics. By librdkafka's default an answer with the largest record that
they take is too large: it closes the connection, time after time."""


def producer_settings(transactional_id: str, timeout_ms: int) -> dict[str, Any]:
    """Settings of the sink's librdkafka producers."""
    return {
        **transactional_settings(transactional_id, timeout_ms),
        "partitioner": "murmur2_random",  # Java's default, which librdkafka's own is not
        "linger.ms": 20,
        "batch.size": 262_144,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 131_072,
    }


@dataclass(frozen=True)
class SinkSettings:
    """What a task needs to reach Kafka."""

    bootstrap_servers: str
    topics: Topics
    transaction_timeout_ms: int
    options: dict[str, str] = field(default_factory=dict)
    failpoint: FailpointHook = no_failpoint
    """Told of each step, in the driver's process and in the tasks'; must be picklable."""
    kept_bytes: int = 64 << 20
    """Rows of a batch that a task keeps in memory; more of them go to a temporary file."""
    tracing: bool = False
    """Whether deliveries of messages that belong to a trace get spans."""
    redeliver_for_ms: int = 259_200_000
    """A committed message that its topic does not take is tried again for this time."""
    ask_limit_ms: int = 0
    """For how long the job may ask about a half message; checks say it, unless it is 0."""
    access: AccessSettings = field(default_factory=AccessSettings)
    """Where the job's own key and its secret are: the secret itself is told nobody."""

    @classmethod
    def of(cls, settings: Settings, failpoint: FailpointHook = no_failpoint) -> Self:
        """What the settings say."""
        kafka = settings.kafka
        return cls(
            kafka.bootstrap_servers,
            kafka.topics,
            settings.job.sink_transaction_timeout,
            kafka.sink_client,
            failpoint,
            tracing=settings.job.tracing,
            redeliver_for_ms=settings.transactions.redeliver_for,
            ask_limit_ms=settings.transactions.ask_limit_ms,
            access=settings.access,
        )

    def client(self, **more: Any) -> dict[str, Any]:
        """Settings of a librdkafka client."""
        common = {"bootstrap.servers": self.bootstrap_servers, "log_level": 2}
        return {**common, **more, **self.options}
