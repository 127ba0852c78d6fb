"""The settings of the job and of the check service. ``conf/default.toml`` lists them all with one line each."""

import re
from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ByteSize,
    Field,
    HttpUrl,
    NonNegativeInt,
    PositiveInt,
    SecretStr,
    model_validator,
)

from checkback.wire.protocol import Topics
from conf.durations import Milliseconds
from conf.sections import Section
from conf.security import KafkaSecurity
from conf.sinks import SinksSettings

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[Milliseconds, Field(gt=0)]
Bytes = Annotated[ByteSize, Field(gt=0)]

_DAY_MS = 86_400_000
_ON_EXHAUSTED = r"^(park|commit|rollback|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"


def _host_or_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        if not re.fullmatch(r"[\w*?.-]+", text) or re.fullmatch(r"[\d.]+", text):
            raise ValueError(
                "write a host name, a pattern like '*.shops.internal', or a network like '10.0.0.0/8'"
            ) from None
    return text


HostOrNetwork = Annotated[str, AfterValidator(_host_or_network)]
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9.:\[\]-]+$")]
Port = Annotated[int, Field(ge=0, le=65_535)]
_TOKEN_CHARACTERS = 16
Secret = Annotated[SecretStr, Field(min_length=16)]


def _hosts_and_ports(text: str) -> str:
    for one in text.split(","):
        if not re.fullmatch(r"\s*(\[[0-9A-Fa-f:.%]+\]|[^\s:,\[\]@/]+):\d{1,5}\s*", one):
            # what stands before an @ may be a password, which is not to be printed
            wrong = repr(one) if "@" not in one else "what has an @: user and password belong in kafka.security"
            raise ValueError(f"write host:port, several with commas, not {wrong}")
    return text


class KafkaSettings(Section):
    """Where Kafka is, and what each of the three clients needs to reach it."""

    bootstrap_servers: Annotated[str, AfterValidator(_hosts_and_ports)] = "localhost:9092"
    topic_prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]+$")] = "cb."
    source_options: dict[str, str] = {}
    sink_options: dict[str, str] = {}
    client_options: dict[str, str | int | bool] = {}
    security: KafkaSecurity = KafkaSecurity()

    @model_validator(mode="after")
    def _only_what_is_committed(self) -> Self:
        taken = sorted({"isolation.level", _CREATES_TOPICS} & self.source_options.keys())
        if taken:
            raise ValueError(
                f"kafka.source_options must not set {', '.join(taken)}: a repeated batch must read the same records"
            )
        taken = sorted(_TAKEN_BY_THE_SINK & self.sink_options.keys())
        if taken:
            raise ValueError(f"kafka.sink_options must not set {', '.join(taken)}: exactly-once needs the job's own")
        return self

    @property
    def topics(self) -> Topics:
        """Checkback's own."""
        return Topics(self.topic_prefix)

    @property
    def source_client(self) -> dict[str, str]:
        """Settings of Spark's Kafka source, with Java's names."""
        return {**self.security.for_java(), **self.source_options}

    @property
    def sink_client(self) -> dict[str, str]:
        """Settings of the sink's client, of what answers checks and settles lanes, of a gateway: librdkafka's names."""
        return {**self.security.for_librdkafka(), **self.sink_options}

    @property
    def python_client(self) -> dict[str, str | int | bool]:
        """Settings of kafka-python, with its names: topics, the check service, the command line."""
        return {**self.security.for_kafka_python(), **self.client_options}


_CREATES_TOPICS = "allow.auto.create.topics"
_TAKEN_BY_THE_SINK = frozenset(
    {
        _CREATES_TOPICS,
        *("transactional.id", "group.id", "isolation.level", "enable.auto.commit", "auto.offset.reset", "acks"),
        *("enable.idempotence", "transaction.timeout.ms", "partitioner", "bootstrap.servers"),
    }
)


_TAKEN_BY_THE_STATE = frozenset(
    {
        "spark.sql.streaming.stateStore.providerClass",  # in what order timers come: see state/allowance.py
        "spark.sql.adaptive.enabled",  # one task for each state partition, always the same
        "spark.sql.shuffle.partitions",
    }
)


class JobSettings(Section):
    """The streaming query."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]+$")] = "checkback"
    checkpoint: Text = "checkpoint"
    master: Text = "local[*]"
    driver_memory: Annotated[str, Field(pattern=r"^\d+[mg]$")] = "2g"
    spark_options: dict[str, str] = {}
    state_partitions: PositiveInt = 2
    max_offsets_per_trigger: PositiveInt = 200_000
    max_bytes_per_trigger: Bytes = ByteSize(134_217_728)
    batch_interval: Annotated[Milliseconds, Field(ge=0, le=10_000)] = 0
    clock_tolerance: Positive = 600_000
    sink_transaction_timeout: Positive = 600_000
    tracing: bool = False

    @property
    def driver_memory_bytes(self) -> int:
        """The same as a number."""
        return int(self.driver_memory[:-1]) << (30 if self.driver_memory.endswith("g") else 20)

    @model_validator(mode="after")
    def _only_what_decides_nothing(self) -> Self:
        taken = sorted(_TAKEN_BY_THE_STATE & self.spark_options.keys())
        if taken:
            raise ValueError(
                f"job.spark_options must not set {', '.join(taken)}: a repeated batch must come to the same state"
            )
        return self


class TransactionSettings(Section):
    """The rules' numbers: see ``state.Policy``."""

    timeout: Positive = 6_000
    late_end_transaction: Literal["accept", "require_check"] = "accept"
    check_interval: Positive = 30_000
    check_interval_max: Positive = 30_000
    check_max: NonNegativeInt = 15
    on_exhausted: Annotated[str, Field(pattern=_ON_EXHAUSTED)] = "park"
    check_answer_ttl: Positive = 7_200_000
    unreachable_backoff_max: Positive = 300_000
    age_limit: Positive = 259_200_000
    delay_max: Positive = 604_800_000
    parked_ttl: Positive = 604_800_000
    redeliver_for: Positive = 259_200_000
    early_op_ttl: Positive = 3_600_000
    early_op_max: PositiveInt = 8_192
    timer_slack: Positive = 1_000
    segment_size: Annotated[int, Field(ge=64, le=16_384)] = 4_096

    @property
    def half_retention_ms(self) -> int:
        """The least retention of the half topic: large messages are read again from it as long as they may be wanted.

        Undecided for that long and then parked for that long, or delayed; and two days, in which the job may be down.
        """
        return max(self.age_limit + self.parked_ttl, self.delay_max) + 2 * _DAY_MS

    @property
    def ask_limit_ms(self) -> int:
        """No half message that was written longer ago is asked about: read as late as it is kept, then undecided for
        ``age_limit``, then parked for ``parked_ttl`` and resumed. Who answers may forget what is older.
        """
        return self.half_retention_ms + self.age_limit + self.parked_ttl

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for name in ("timeout", "check_interval"):  # an answer is never waited for beyond the age limit
            if getattr(self, name) >= self.age_limit:
                raise ValueError(f"transactions.{name} must be shorter than transactions.age_limit")
        if self.segment_size & (self.segment_size - 1):
            raise ValueError("transactions.segment_size must be a power of two")
        return self


class QuotaSettings(Section):
    """What one producer group may have under way at once: see ``streaming.fairness.quotas``."""

    open: PositiveInt = 5_000_000
    open_bytes: Bytes = ByteSize(68_719_476_736)
    delayed: PositiveInt = 5_000_000
    parked: PositiveInt = 1_000_000


class CheckSettings(Section):
    """The check service."""

    in_job: bool = True
    ask_timeout: Positive = 3_000
    concurrency_per_group: PositiveInt = 32
    queue_per_group: PositiveInt = 10_000
    endpoint_ttl: Positive = 60_000
    http_host: Text = "127.0.0.1"
    http_port: Port = 9_465
    endpoints: dict[str, list[HttpUrl]] = {}
    announced_beside_fixed: bool = False
    keys: dict[str, Secret] = {}
    allowed_hosts: list[HostOrNetwork] = []
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.tls_key and not self.tls_certificate:
            raise ValueError("checks.tls_key needs checks.tls_certificate")
        return self


class HttpSettings(Section):
    """The job's port: ``/metrics``, the status page and its API."""

    host: Text = "127.0.0.1"
    port: Port = 9_464
    names: list[HostName] = []
    token: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _no_short_token(self) -> Self:
        if 0 < len(self.token.get_secret_value()) < _TOKEN_CHARACTERS:
            raise ValueError(f"http.token must have {_TOKEN_CHARACTERS} characters or more; without one nobody can act")
        return self


class LogSettings(Section):
    """What job and check service print."""

    format: Literal["auto", "text", "json"] = "auto"
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class AccessSettings(Section):
    """Who may send what, and who signs: see ``access.policy``."""

    policy: str = ""
    secrets: str = ""
    key: str = ""


class GatewaySettings(Section):
    """The gateway for RocketMQ's own clients and for HTTP."""

    host: Text = "127.0.0.1"
    port: Port = 8_081
    tls_port: Port = 0
    http_port: Port = 8_082
    tls_certificate: str = ""
    tls_key: str = ""
    check_host: Text = "127.0.0.1"
    check_port: Port = 0
    advertised: str = ""
    secrets: list[Annotated[SecretStr, Field(min_length=32, max_length=1_024)]] = []
    groups: dict[str, Annotated[str, Field(min_length=1, max_length=255)]] = {}
    max_body: Bytes = ByteSize(4_194_304)
    write_timeout: Positive = 3_000

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("gateway.tls_certificate and gateway.tls_key need one another")
        if self.tls_port and not self.tls_certificate:
            raise ValueError("gateway.tls_port needs gateway.tls_certificate")
        return self


class Settings(Section):
    """Everything, validated before anything starts."""

    kafka: KafkaSettings = KafkaSettings()
    job: JobSettings = JobSettings()
    transactions: TransactionSettings = TransactionSettings()
    quotas: QuotaSettings = QuotaSettings()
    checks: CheckSettings = CheckSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    sinks: SinksSettings = SinksSettings()
    access: AccessSettings = AccessSettings()
    gateway: GatewaySettings = GatewaySettings()

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.checks.ask_timeout >= self.transactions.check_answer_ttl:
            raise ValueError("checks.ask_timeout must be shorter than transactions.check_answer_ttl")
        return self
