"""Kafka: its brokers, Checkback's topics, what the job may do with them, and the clock."""

import time
from collections.abc import Iterator, Mapping

from access import Right, Role, Whom, rights_of
from access.roles import Allowed, lacking
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaError,
    KafkaProducer,
)
from checkback.kafka.reaching import CONNECT_MS
from checkback.operations.times import difference_ms, said_duration
from checkback.operations.topic_facts import TopicFacts, allowed_of, facts_of, faults
from checkback.wire.groups import own_groups
from checkback.wire.protocol import Topics
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from conf import Settings

_SLOW_MS = 100
_DAY_MS = 24 * 3_600_000
_NEEDED = {
    "TxnOffsetCommit": (3, "transactions that a newer producer fences by its group (2.5)"),
    "InitProducerId": (3, "transactions that continue after an error (2.5)"),
}
"""Requests of the protocol, in which version, and what they are for."""
_USEFUL = {
    "DescribeTransactions": (0, "naming who holds a partition back (3.0)"),
    "Metadata": (12, "ids of topics, by which one that was deleted and made again is noticed (2.8)"),
}


def about_brokers(admin: KafkaAdminClient, settings: Settings, reached_seconds: float) -> Iterator[Finding]:
    """How quickly they answer, how many there are, what they can do, and how they are set."""
    begun = time.monotonic()
    cluster = admin.describe_cluster()
    took_ms = (time.monotonic() - begun) * 1000
    brokers = cluster["brokers"]
    number = f"{len(brokers)} broker{'' if len(brokers) == 1 else 's'}"
    version = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version_str
    said = f"{number} at {settings.kafka.bootstrap_servers}, Kafka {version}, reached in {reached_seconds:.1f} s"
    if took_ms > _SLOW_MS:
        todo = "each batch asks several times: check the network, or run the job closer to Kafka"
        yield warning("Kafka", f"{said}, and takes {took_ms:.0f} ms for an answer", todo)
    else:
        yield ok("Kafka", f"{said}, answers in {took_ms:.0f} ms")
    yield from features({str(key.name): tuple(versions) for key, versions in admin.api_versions().items()})
    yield from broker_settings(_configuration(admin, brokers[0]["broker_id"]), settings)


def features(versions: Mapping[str, tuple[int, ...]]) -> Iterator[Finding]:
    """What brokers of these versions of the protocol lack: by request, the lowest and the highest version."""
    lacking = [what for name, (least, what) in _NEEDED.items() if versions.get(name, (0, -1))[-1] < least]
    if lacking:
        yield wrong("Kafka", f"its brokers lack {', '.join(lacking)}", "upgrade them")
    missed = [what for name, (least, what) in _USEFUL.items() if versions.get(name, (0, -1))[-1] < least]
    if missed:
        yield warning("Kafka", f"its brokers lack {', '.join(missed)}", "nothing to do; an upgrade adds it")
    if not lacking and not missed:
        yield ok("Kafka", "its brokers support all that the job uses")


def broker_settings(configuration: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    """Settings of a broker that the job depends on; those that it does not tell are passed over."""
    longest = int(configuration.get("transaction.max.timeout.ms", settings.job.sink_transaction_timeout))
    if longest < settings.job.sink_transaction_timeout:
        said = f"transaction.max.timeout.ms is {longest}, and job.sink_transaction_timeout is longer"
        yield wrong("Kafka", said, f"set job.sink_transaction_timeout to {said_duration(longest)} or less")
    kept_ms = int(configuration.get("offsets.retention.minutes", 10_080)) * 60_000
    if kept_ms < _DAY_MS:
        said = f"offsets.retention.minutes is {kept_ms // 60_000}: a job that is down for longer cannot continue"
        yield warning("Kafka", said, "set it to 10080 (7 days)")
    if configuration.get("auto.create.topics.enable") == "true":
        said = "auto.create.topics.enable is true: clients other than Checkback's create the topics that they misspell"
        yield warning("Kafka", said, "set it to false")


def about_topics(
    admin: KafkaAdminClient, settings: Settings, topics: Topics, facts: dict[str, TopicFacts]
) -> Iterator[Finding]:
    """Whether they are there and right; ``facts`` is given what Kafka says of them."""
    facts.update(facts_of(admin, topics.all()))
    found = faults(facts, topics, settings.transactions, settings.job.state_partitions)
    for fault in found:
        make = wrong if fault.stops else warning
        yield make("topics", f"{fault.topic} {fault.what}", fault.todo)
    there = [one for one in facts.values() if one.partitions]
    single = [one.name for one in there if one.replication == 1]
    if single:
        todo = "give them 3 replicas where losing a broker must not lose messages; for development one is enough"
        yield warning("topics", f"{len(single)} of them have one replica", todo)
    if there and not found:
        half = facts[topics.half]
        yield ok("topics", f"all {len(there)} are as they should be; {topics.half} has {half.partitions} partitions")


def about_rights(admin: KafkaAdminClient, topics: Topics, facts: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """Whether whoever runs this may do what the job does, as far as Kafka says."""
    silent = [name for name, one in facts.items() if one.partitions and one.operations is None]
    if silent:
        said = f"Kafka does not say what this user may do with {', '.join(silent)}"
        yield warning("rights", said, "nothing; docs/security.md lists what the job needs")
    missing = lacking_rights(topics, allowed_of(admin, topics.all(), own_groups(topics)))
    for right in missing:
        yield wrong("rights", f"this user lacks {right}", "grant it ('checkback access grant job')")
    if not (silent or missing):
        yield ok("rights", "this user may do what the job does with Checkback's topics and groups")


def lacking_rights(topics: Topics, allowed: Allowed) -> list[Right]:
    """Those of the job and its check service, on Checkback's topics and groups, that Kafka says are not allowed."""
    rights = {right: None for role in (Role.JOB, Role.CHECKS) for right in rights_of(role, Whom(topics, real=("*",)))}
    return lacking(rights, allowed)


def about_clock(settings: Settings, topics: Topics, facts: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """How far this machine's clock is off Kafka's: a record is written to ``cb.progress``, as the job does."""
    progress = facts.get(topics.progress)
    if progress is None or not progress.partitions:
        return
    if progress.configuration.get("message.timestamp.type") == "CreateTime":
        yield warning("clock", f"{topics.progress} does not have Kafka's time", "run 'checkback topics create'")
        return
    client = {"bootstrap_servers": settings.kafka.bootstrap_servers, "acks": 1, "max_block_ms": CONNECT_MS}
    producer = make_client(KafkaProducer, client, settings.kafka.python_client, SHARED)
    try:
        # the first one waits for connections, too
        for _ in range(2):
            asked = time.time_ns() // 1_000_000
            kafka = int(producer.send(topics.progress, key=b"clock", partition=0).get(10).timestamp)
            heard = time.time_ns() // 1_000_000
    except KafkaError as error:
        yield warning("clock", f"Kafka did not take a record of {topics.progress}: {error}", "grant write on it")
        return
    finally:
        producer.close(timeout=1)
    yield off_by(difference_ms(asked, kafka, heard), settings.job.clock_tolerance)


def off_by(difference: int, tolerance_ms: int) -> Finding:
    """What it means that this clock is so many ms ahead of Kafka's."""
    side = "ahead of" if difference > 0 else "behind"
    said = f"this machine's is {said_duration(abs(difference))} {side} Kafka's" if difference else "as Kafka's"
    if abs(difference) > tolerance_ms:
        return wrong("clock", said, "correct the one that is wrong: the job does not start (job.clock_tolerance)")
    if abs(difference) > min(tolerance_ms // 2, 5_000):
        return warning("clock", said, "synchronize both with a time server (NTP)")
    return ok("clock", said)


def _configuration(admin: KafkaAdminClient, broker: int) -> dict[str, str]:
    names = ["transaction.max.timeout.ms", "offsets.retention.minutes", "auto.create.topics.enable"]
    try:
        answer = admin.describe_configs(
            [ConfigResource(ConfigResourceType.BROKER, str(broker), names)], config_filter="all"
        )
    except KafkaError:
        return {}
    said = answer.get("broker", {}).get(str(broker), {})
    return {name: str(one["value"]) for name, one in said.items() if one["value"] is not None}
