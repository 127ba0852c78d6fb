"""Creates and looks at Checkback's own topics."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

from checkback.exceptions import CheckpointMismatchError, ConfigurationError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import (
    ConfigResource,
    ConfigResourceType,
    InvalidReplicationFactorError,
    KafkaAdminClient,
    KafkaError,
    NewTopic,
    TopicAlreadyExistsError,
)
from checkback.kafka.kafka_python.repairs import GroupAdmin
from checkback.operations.retention import BYTES, TIME, Times, refuse_short, shorter_retention
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.protocol import Topics

_LOGGER = logging.getLogger(__name__)
_DAY_MS = 24 * 3_600_000
_CHECKS_MS = 6 * 3_600_000
"""Checks are read at once, or wait for their group; after ``transactions.check_answer_ttl`` they are written again."""
_CONTROL_MS = 7 * _DAY_MS
"""Consumers hear of what they are to do at once; of a command that died, what it has left goes some day."""
_STAMPED, _PACKING, _CLEANUP = "message.timestamp.type", "compression.type", "cleanup.policy"
_ELECTION = "unclean.leader.election.enable"
RULED = (_STAMPED, _PACKING, _CLEANUP, _ELECTION)
"""Settings that there are rules for."""
"""Of a record that the job writes."""
IN_SYNC = "min.insync.replicas"
_ANNOUNCED_BYTES = 4 << 20
"""Of a segment: Kafka deletes whole ones, so keys that were made up must not share one with what is announced later."""
_AUDIT_MS = 365 * _DAY_MS
"""Who was it, last year?"""
_REPLICAS = 3
_SEGMENT_BYTES = 1 << 30
"""A record must fit into a segment; Kafka's own default, which brokers may have lower."""


class Rule(NamedTuple):
    """What a topic's configuration must say, whatever the brokers' default is."""

    value: str
    why: str
    """What happens with another value."""
    loses: bool
    """Whether a start refuses another value; else it warns of it."""

    def kept_by(self, value: str) -> bool:
        """Whether that is what it must say; lists have no order, and what is compacted may also be kept for ever."""
        wanted, given = ({*text.replace(" ", "").split(",")} for text in (self.value, value))
        return given <= wanted and ("compact" in given) == ("compact" in wanted)


_KAFKAS_TIME = Rule(
    "LogAppendTime",
    "records have their producers' time there, and Kafka deletes at once what a wrong clock has dated years back",
    loses=True,
)
_UNPACKED = Rule("uncompressed", "a record that its producer has compressed may be of any size there", loses=False)
"""The broker keeps unpacked what a producer compressed: so ``max.message.bytes`` is a limit of what the job gets."""
_ELECTED = Rule("false", "a broker that lags may lead them, and what the others have confirmed is lost", loses=False)
_WHOLE = Rule("delete", "Kafka keeps the last record of each key there and loses the others", loses=True)
_COMPACTED = Rule("compact", "Kafka deletes there what is still in force, only because it is old", loses=True)
_COMPACTED_FOR_A_TIME = _COMPACTED._replace(value="compact,delete")

_KNOWN_SECONDS = 15.0
"""For a topic that was created to be known, by a broker that has much to do."""
_JUST_CREATED_SECONDS = 5.0
"""Likewise before a job says that a topic is missing: 'topics create' may have ended a moment ago."""
_LOOK_AGAIN_SECONDS = 0.1


def admin_client(bootstrap_servers: str, options: Mapping[str, Any] | None = None) -> KafkaAdminClient:
    """A client that asks brokers; ``options`` are further ones of kafka-python's, and override ours.

    Raises:
        ConfigurationError: one of the options is wrong, or ours to set.
        KafkaUnreachableError: no Kafka answers.
    """
    client = {"bootstrap_servers": bootstrap_servers}
    return make_client(GroupAdmin, client, options, SHARED, setting="kafka.bootstrap_servers")


class Made(StrEnum):
    """What :meth:`TopicAdministration.create` did for a topic."""

    CREATED = "created"
    CORRECTED = "corrected"
    THERE = "is there"


class TopicAdministration:
    """A short-lived connection for topics; use it as a context manager."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any] | None = None) -> None:
        self._admin = admin_client(bootstrap_servers, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def create(
        self,
        topics: Topics,
        *,
        partitions: int,
        progress_partitions: int,
        replication: int,
        times: Times,
    ) -> dict[str, Made]:
        """Create Checkback's topics, those that are missing, and correct those that are there.

        All that loses or hurts where the brokers' own default is another is set on each topic (:func:`rules_of`). The
        op topic has as many partitions as the half topic, or more.

        Those that applications write to are kept uncompressed, the others as the job writes them. Half messages are
        kept for as long as they may have to be read again (``checkback/operations/retention.py``), and ops for as long:
        whoever reads both again finds how each was decided. The topics that whole half messages are written to take any
        size, whatever ``cb.half`` takes.

        Returns:
            Each topic's name, with what was done.

        Raises:
            ConfigurationError: a topic that is there cannot be corrected.
        """
        keep = {TIME: str(times.age_limit + 2 * _DAY_MS)}
        read_again = {TIME: str(times.half_retention_ms)}
        # A half message that filled cb.half's batch has a few headers more there, and is not compressed any more.
        whole = {"max.message.bytes": str(MOST_RECORD_BYTES), "segment.bytes": str(_SEGMENT_BYTES)}
        every = {
            BYTES: "-1",
            _PACKING: "producer",
            **confirmed_by(replication),
        }
        wanted = {
            topics.half: (partitions, read_again),
            topics.op: (max(partitions, self.partitions((topics.half,)).get(topics.half, 0)), read_again),
            topics.check: (partitions, {TIME: str(_CHECKS_MS), **whole}),
            topics.parked: (1, {TIME: "-1", **whole}),
            topics.rejected: (1, {**keep, **whole}),
            topics.status: (1, {}),
            topics.producers: (1, {TIME: str(_DAY_MS), "segment.bytes": str(_ANNOUNCED_BYTES)}),
            topics.progress: (progress_partitions, {}),
            topics.control: (1, {TIME: str(_CONTROL_MS)}),
            topics.later: (partitions, read_again),
            topics.audit: (1, {TIME: str(_AUDIT_MS)}),
        }
        created = {
            name: self.create_one(
                name, count, replication, {**every, **_values(rules_of(topics)[name]), **configuration}
            )
            for name, (count, configuration) in wanted.items()
        }
        there = self._configurations(topics, [name for name, new in created.items() if not new])
        wrong = {
            name: _values({key: rules_of(topics)[name][key] for key in broken})
            for name, said in there.items()
            if (broken := broken_rules(rules_of(topics)[name], said))
        }
        for name in (topics.half, topics.op, topics.later):
            said = there.get(name, {})
            if not created[name] and shorter_retention(name, said, times.half_retention_ms) is not None:
                wrong[name] = {**wrong.get(name, {}), **read_again}
        self._correct(wrong)
        grown = self._grow_op(topics, created)
        self.wait_for([name for name, new in created.items() if new])
        return {
            name: Made.CREATED if new else Made.CORRECTED if name in {*wrong, *grown} else Made.THERE
            for name, new in created.items()
        }

    def create_one(
        self, name: str, partitions: int, replication: int = 1, configuration: Mapping[str, str] | None = None
    ) -> bool:
        """Create one topic; False when it is there already."""
        topic = NewTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication,
            topic_configs=dict(configuration or {}),
        )
        try:
            self._admin.create_topics([topic])
        except TopicAlreadyExistsError:
            return False
        except InvalidReplicationFactorError as error:
            raise ConfigurationError(
                f"{name} cannot have {replication} replicas: Kafka has fewer brokers. Give --replication a number that "
                "it has."
            ) from error
        except KafkaError as error:
            raise ConfigurationError(f"Kafka did not create the topic {name}: {error}.") from error
        return True

    def brokers(self) -> int:
        """How many there are, as far as they answer."""
        return len(self._admin.describe_cluster()["brokers"])

    def wait_for(self, names: Sequence[str], seconds: float = _KNOWN_SECONDS) -> list[str]:
        """Wait until all these topics are known and have leaders; gives those that are not after ``seconds``.

        A topic that was created a moment ago is not known to each broker at once.
        """
        known = self._known_within(names, seconds)
        return [name for name in names if not known.get(name)]

    def partitions(self, names: Sequence[str]) -> dict[str, int]:
        """Number of partitions of each of these topics that exists."""
        return {name: len(partitions) for name, partitions in self._described(names).items()}

    def _described(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Partitions of each of these topics that the broker knows."""
        found = self._admin.describe_topics(list(names))
        return {topic["name"]: topic["partitions"] for topic in found if not topic["error_code"]}

    def _known_within(self, names: Sequence[str], seconds: float) -> dict[str, list[Any]]:
        """The same, as soon as all are there, or after ``seconds``."""
        until = monotonic() + seconds
        while True:
            known = self._described(names)
            if monotonic() > until or all(known.get(name) for name in names):
                return known
            sleep(_LOOK_AGAIN_SECONDS)

    def check(self, topics: Topics, state_partitions: int, half_retention_ms: int) -> int:
        """Make sure that a job can run on these topics, and read half messages again for that long.

        Returns:
            The number of half partitions.

        Raises:
            ConfigurationError: a topic is missing, takes nothing, or is configured such that something is lost.
            CheckpointMismatchError: their partitions do not fit.
        """
        known = self._known_within(topics.all(), _JUST_CREATED_SECONDS)
        replicas = {name: min(len(one["replica_nodes"]) for one in found) for name, found in known.items() if found}
        counts = {name: len(partitions) for name, partitions in known.items()}
        missing = [name for name in topics.all() if name not in counts]
        if missing:
            raise ConfigurationError(f"Kafka has no topic {', '.join(missing)}: run 'checkback topics create' first.")
        if counts[topics.half] > counts[topics.op]:
            raise CheckpointMismatchError(few_ops(topics.half, topics.op, counts[topics.half], counts[topics.op]))
        if counts[topics.progress] < state_partitions:
            raise CheckpointMismatchError(
                f"{topics.progress} has {counts[topics.progress]} partitions, job.state_partitions is "
                f"{state_partitions}: add partitions to {topics.progress}."
            )
        said = self._configurations(topics, topics.all())
        for sentence in _refusals(topics, said, replicas, loses=False):
            _LOGGER.warning(sentence)
        for sentence in _refusals(topics, said, replicas, loses=True):
            raise ConfigurationError(sentence)
        refuse_short(topics.half, said.get(topics.half, {}), half_retention_ms)
        return counts[topics.half]

    def _configurations(self, topics: Topics, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """What Kafka says of these topics that there are rules for."""
        keys = {name: [*rules_of(topics)[name], IN_SYNC, TIME, BYTES] for name in names}
        asked = [ConfigResource(ConfigResourceType.TOPIC, name, wanted) for name, wanted in keys.items()]
        if not asked:
            return {}
        answers = self._admin.describe_configs(asked, config_filter="all").get("topic", {})
        unknown = [one.name for one in asked if _STAMPED not in answers.get(one.name, {})]
        if unknown:
            _LOGGER.warning(
                "Kafka does not say whether %s have its own time (%s): it must be %s. Grant describe configs on them.",
                *(", ".join(unknown), _STAMPED, _KAFKAS_TIME.value),
            )
        return {name: {key: str(one["value"]) for key, one in answer.items()} for name, answer in answers.items()}

    def _grow_op(self, topics: Topics, created: Mapping[str, bool]) -> list[str]:
        """Give the op topic as many partitions as the half topic has; gives it if that was done."""
        if created[topics.half]:
            return []
        counts = self.partitions((topics.half, topics.op))
        half = counts.get(topics.half, 0)
        if half <= counts.get(topics.op, half):
            return []
        self.grow(topics.op, half)
        return [topics.op]

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions, unless it has them, or more."""
        if self.partitions((topic,)).get(topic, partitions) < partitions:
            self._admin.create_partitions({topic: partitions})

    def _correct(self, wrong: Mapping[str, Mapping[str, str]]) -> None:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict(rules)) for name, rules in wrong.items()]
        if not resources:
            return
        for name, answer in self._admin.alter_configs(resources).get("topic", {}).items():
            if answer != "OK":
                said = ", ".join(f"{key}={value}" for key, value in wrong[name].items())
                raise ConfigurationError(f"{name} cannot be given {said}: {answer}.")


def usual_replication(brokers: int) -> int:
    """How many replicas a topic should have: three, where there are as many brokers."""
    return _REPLICAS if brokers >= _REPLICAS else 1


def confirmed_by(replication: int) -> dict[str, str]:
    """Of a topic with so many replicas: how many have to have a record before it is confirmed.

    Two, but for one that may be away. More than there are replicas, and the topic takes nothing.
    """
    return {IN_SYNC: str(max(1, min(2, replication - 1)))}


def few_ops(half: str, op: str, half_partitions: int, op_partitions: int) -> str:
    """What is wrong when the half topic has more partitions than the op topic, and what to do."""
    return (
        f"{half} has {half_partitions} partitions and {op} {op_partitions}: an op lies on the partition number of its "
        f"half message, so {op} needs as many. Run 'checkback topics create', which adds them."
    )


def rules_of(topics: Topics) -> dict[str, dict[str, Rule]]:
    """What the configuration of each of Checkback's topics must say."""
    written_by_applications = (topics.half, topics.op, topics.producers, topics.later)
    compacted = {
        topics.status: _COMPACTED,
        topics.producers: _COMPACTED_FOR_A_TIME,
        topics.control: _COMPACTED_FOR_A_TIME,
    }
    common = {_STAMPED: _KAFKAS_TIME, _ELECTION: _ELECTED}
    return {
        name: {
            **common,
            _CLEANUP: compacted.get(name, _WHOLE),
            **({_PACKING: _UNPACKED} if name in written_by_applications else {}),
        }
        for name in topics.all()
    }


def broken_rules(rules: Mapping[str, Rule], said: Mapping[str, str]) -> dict[str, str]:
    """What Kafka says otherwise of a topic."""
    return {key: said[key] for key, rule in rules.items() if key in said and not rule.kept_by(said[key])}


def _values(rules: Mapping[str, Rule]) -> dict[str, str]:
    return {key: rule.value for key, rule in rules.items()}


def _refusals(
    topics: Topics, said: Mapping[str, Mapping[str, str]], replicas: Mapping[str, int], *, loses: bool
) -> Iterator[str]:
    """One sentence for each setting, of what loses something, or of what only harms."""
    found: dict[tuple[str, str, Rule], list[str]] = {}
    for name, rules in rules_of(topics).items():
        for key, value in broken_rules(rules, said.get(name, {})).items():
            if rules[key].loses is loses:
                found.setdefault((key, value, rules[key]), []).append(name)
    for (key, value, rule), names in found.items():
        yield (
            f"{', '.join(names)}: {rule.why} ({key}={value}). Run 'checkback topics create', which sets "
            f"{key}={rule.value}."
        )
    for name, has in replicas.items():
        least = int(said.get(name, {}).get(IN_SYNC, "1"))
        if loses and least > has:
            yield (
                f"{name} takes nothing: it has {IN_SYNC}={least}, and {has} replica{'' if has == 1 else 's'}. Set "
                f"{IN_SYNC}={has} on it ('kafka-configs.sh --alter --topic {name} --add-config {IN_SYNC}={has}'), or "
                "add replicas."
            )
