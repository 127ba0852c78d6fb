"""Creates and looks at Checkback's own topics."""

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Self

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from checkback.exceptions import CheckpointMismatchError, ConfigurationError, KafkaUnreachableError
from checkback.protocol import Topics
from checkback.retention import half_retention_ms, lengthen, refuse_short, shorter_retention

_LOGGER = logging.getLogger(__name__)
_DAY_MS = 24 * 3_600_000
_TIME, _OWN_TIME = "message.timestamp.type", "LogAppendTime"
"""A topic's records have the broker's time. A producer's may be wrong by years: retention then deletes them at once."""
MOST_BYTES = 100_000_000
"""Of a record that the job writes; Kafka's own limit of a request (``socket.request.max.bytes``) is a little higher."""


class Made(StrEnum):
    """What :meth:`TopicAdministration.create` did for a topic."""

    CREATED = "created"
    CORRECTED = "corrected"
    THERE = "is there"


class TopicAdministration:
    """A short-lived connection for topics; use it as a context manager."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any] | None = None) -> None:
        try:
            self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, **(options or {}))
        except KafkaError as error:
            raise KafkaUnreachableError(
                f"No Kafka answers at {bootstrap_servers} (kafka.bootstrap_servers): {error}."
            ) from error

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
        age_limit_ms: int,
        parked_ttl_ms: int,
    ) -> dict[str, Made]:
        """Create Checkback's topics, those that are missing, and have all of them keep Kafka's time.

        Ops are kept for the age limit and two days more: a decision may come until then. Half messages are kept
        for as long as they may have to be read again (``checkback/retention.py``). The topics that whole half messages
        are written to take any size, whatever ``cb.half`` takes.

        Returns:
            Each topic's name, with what was done.

        Raises:
            ConfigurationError: a topic that is there cannot be corrected.
        """
        keep = {"retention.ms": str(age_limit_ms + 2 * _DAY_MS)}
        compact = {"cleanup.policy": "compact"}
        least_ms = half_retention_ms(age_limit_ms, parked_ttl_ms)
        # A half message that filled cb.half's batch has a few headers more there, and is not compressed any more.
        whole = {"max.message.bytes": str(MOST_BYTES)}
        wanted = {
            topics.half: (partitions, {"retention.ms": str(least_ms)}),
            topics.op: (partitions, keep),
            topics.check: (partitions, whole),
            topics.parked: (1, {"retention.ms": "-1", **whole}),
            topics.rejected: (1, {**keep, **whole}),
            topics.status: (1, compact),
            topics.producers: (1, compact),
            topics.progress: (progress_partitions, {}),
        }
        created = {
            name: self.create_one(name, count, replication, {_TIME: _OWN_TIME, **configuration})
            for name, (count, configuration) in wanted.items()
        }
        wrong = self._with_producers_time([name for name, new in created.items() if not new])
        self._keep_kafkas_time(wrong)
        short = not created[topics.half] and shorter_retention(self._admin, topics.half, least_ms) is not None
        if short:
            lengthen(self._admin, topics.half, least_ms)
            wrong = [*wrong, topics.half]
        return {
            name: Made.CREATED if new else Made.CORRECTED if name in wrong else Made.THERE
            for name, new in created.items()
        }

    def refuse_short_retention(self, topics: Topics, age_limit_ms: int, parked_ttl_ms: int) -> None:
        """Make sure that half messages are there for as long as a job may read them again.

        Raises:
            ConfigurationError: they are not kept for so long.
        """
        refuse_short(self._admin, topics.half, half_retention_ms(age_limit_ms, parked_ttl_ms))

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
        return True

    def partitions(self, names: tuple[str, ...]) -> dict[str, int]:
        """Number of partitions of each of these topics that exists."""
        found = self._admin.describe_topics([name for name in names if name in set(self._admin.list_topics())])
        return {topic["name"]: len(topic["partitions"]) for topic in found}

    def check(self, topics: Topics, state_partitions: int) -> int:
        """Make sure that a job can run on these topics.

        Returns:
            The number of half partitions.

        Raises:
            ConfigurationError: a topic is missing, or keeps the producers' time.
            CheckpointMismatchError: their partitions do not fit.
        """
        counts = self.partitions(topics.all())
        missing = [name for name in topics.all() if name not in counts]
        if missing:
            raise ConfigurationError(f"Kafka has no topic {', '.join(missing)}: run 'checkback topics create' first.")
        if counts[topics.half] != counts[topics.op]:
            raise CheckpointMismatchError(
                f"{topics.op} has {counts[topics.op]} partitions and {topics.half} {counts[topics.half]}: an op lies "
                "on the partition number of its half message, so give both the same number."
            )
        if counts[topics.progress] < state_partitions:
            raise CheckpointMismatchError(
                f"{topics.progress} has {counts[topics.progress]} partitions, job.state_partitions is "
                f"{state_partitions}: add partitions to {topics.progress}."
            )
        wrong = self._with_producers_time(topics.all())
        if wrong:
            raise ConfigurationError(
                f"{', '.join(wrong)}: records have their producers' time there, and Kafka deletes at once what a wrong "
                f"clock has dated years back. Run 'checkback topics create', which sets {_TIME}={_OWN_TIME}."
            )
        return counts[topics.half]

    def _with_producers_time(self, names: Iterable[str]) -> list[str]:
        """Those of these topics whose records are known to have not Kafka's time."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, name, [_TIME]) for name in names]
        if not asked:
            return []
        answers = self._admin.describe_configs(asked, config_filter="all").get("topic", {})
        known = {name: answer[_TIME]["value"] for name, answer in answers.items() if _TIME in answer}
        unknown = [resource.name for resource in asked if resource.name not in known]
        if unknown:
            _LOGGER.warning(
                "Kafka does not say whether %s have its own time (%s): it must be %s. Grant describe configs on them.",
                *(", ".join(unknown), _TIME, _OWN_TIME),
            )
        return [name for name, value in known.items() if value != _OWN_TIME]

    def _keep_kafkas_time(self, names: Iterable[str]) -> None:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, {_TIME: _OWN_TIME}) for name in names]
        if not resources:
            return
        for name, answer in self._admin.alter_configs(resources).get("topic", {}).items():
            if answer != "OK":
                raise ConfigurationError(f"{name} cannot be given {_TIME}={_OWN_TIME}: {answer}.")
