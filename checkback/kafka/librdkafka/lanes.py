"""A producer's lane: transactions of messages that also have the lane's ledger."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]  # documented, not re-exported

from checkback.exceptions import CheckbackError, ConfigurationError, KafkaUnreachableError, NotAllowedError
from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import (
    METADATA_REFUSED,
    NO_TOPIC,
    NOT_ALLOWED,
    REFUSED,
    TIMED_OUT,
    error_code,
    is_fatal,
    result_of,
)
from checkback.kafka.librdkafka.topics import of_controller
from checkback.kafka.librdkafka.transactional import SpentEpochError, StuckError, Transactional, transactional_settings
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms, no_kafka
from checkback.wire.groups import metadata_refused
from checkback.wire.lanes import TRANSACTION_TIMEOUT_MS
from checkback.wire.ledger import OFFSET, PARTITION, Ledger
from checkback.wire.protocol import Headers, Topics
from checkback.wire.rights import not_allowed, of_lanes

_DELIVER_SECONDS = 5.0
"""Of each call of a transaction: as long as Kafka lets the transaction be open."""
_OPEN_SECONDS = 15.0
_CONNECT_SECONDS = CONNECT_MS / 1000
_MARKERS_SECONDS = 0.002
"""Between the end of a transaction and the next one. While the last one's markers are being written Kafka takes no
partition into another, and librdkafka, whatever its settings, asks again after 20 ms. Transactions one behind another
took p90 28 to 31 ms, with this 13 to 16, and p50 no longer."""
_HEAR_SECONDS = 1.0
_METADATA_MS = 1_500
"""A topic that was deleted is looked for so long, and the transaction has to end within Kafka's time all the same."""
_MAY_WRITE = frozenset({AclOperation.WRITE, AclOperation.ALL})


class LaneRecord(NamedTuple):
    """A message as it goes to its real topic."""

    topic: str
    partition: int | None
    """None: the key decides, as ``murmur2_random`` does; any without a key."""
    key: bytes | None
    value: bytes | None
    headers: Headers


class LaneRefusedError(CheckbackError):
    """Kafka does not take some of the records; the transaction was aborted, and that was heard. The lane lives."""

    def __init__(self, numbers: frozenset[int], why: object) -> None:
        super().__init__(f"Kafka refused messages: {why}")
        self.numbers = numbers
        """Of the records that are known to be refused, in the order given; others may be, too."""


class LaneLostError(CheckbackError):
    """What became of the transaction is not known, or the lane was fenced: it is to be settled, and used no more."""

    retriable = True


class LanePlace(NamedTuple):
    """Where a lane connects to."""

    bootstrap_servers: str
    topics: Topics
    transactional_id: str
    options: Mapping[str, Any]
    """The producer's; what tells how to reach Kafka is taken of them."""

    def not_allowed(self, error: Exception) -> NotAllowedError:
        """What to raise when Kafka refuses what concerns the lane."""
        of_group = self.transactional_id.rpartition(":")[0]
        return not_allowed("the producer", error, list(of_lanes(f"{of_group}:", self.topics.progress)))


class Lane:
    """One lane of this process; one thread at a time uses it.

    Raises:
        ConfigurationError: a setting cannot be used.
    """

    def __init__(self, place: LanePlace) -> None:
        self._place = place
        self._reaching = {
            "log_level": 2,
            **of_reaching(place.options),
            "bootstrap.servers": place.bootstrap_servers,
        }
        self._settings = {
            # A transaction that begins while the last one's markers are being written is told to try again. By
            # default that is 100 ms later: the messages were readable after 139 ms, with these after 2.
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 5,
            **transactional_settings(place.transactional_id, TRANSACTION_TIMEOUT_MS),
            "reconnect.backoff.max.ms": longest_pause_ms(place.options, "reconnect.backoff.ms"),
            "partitioner": "murmur2_random",  # as the job's sink has it
            "linger.ms": 0,
            "topic.metadata.propagation.max.ms": _METADATA_MS,
            **self._reaching,
        }
        self._kafka = Transactional(self._settings, series=True)
        self._membership: Any = None
        self._asking: AdminClient | None = None
        self._next_at = 0.0
        """Not before this a transaction begins (s, monotonic)."""

    @property
    def spent(self) -> bool:
        """Whether it delivers nothing more, though its last transaction has ended: see ``SpentEpochError``."""
        return self._kafka.spent

    def open(self) -> None:
        """Take the lane, and commit an empty ledger: before a half message names it.

        Raises:
            KafkaUnreachableError: Kafka is away.
            ConfigurationError: Kafka does not allow it; the message says what to allow.
        """
        name = self._place.transactional_id
        if not (name.isascii() and name.isprintable()):  # librdkafka calls the group's metadata "not safe"
            raise ConfigurationError(
                f"delivery='direct' needs a group whose name is printable ASCII, which {name!r} is not: give the group "
                "another name, or leave that out."
            )
        until = monotonic() + _OPEN_SECONDS
        while True:  # Kafka makes its topics for groups and transactions when they are first used
            try:
                return self._open()
            except KafkaUnreachableError:
                if monotonic() >= until:
                    raise

    def _open(self) -> None:
        name = self._place.transactional_id
        try:
            self._kafka.connect(self._place.topics.progress, _CONNECT_SECONDS)
            self._kafka.fence(_CONNECT_SECONDS)
            self._membership = self._member(name)
            self._kafka.begin()
            self._add(Ledger())
            self._kafka.commit(_DELIVER_SECONDS)
        except StuckError as error:
            raise no_kafka(self._place.bootstrap_servers, error) from error
        except KafkaException as error:
            if error_code(error) in NOT_ALLOWED:
                raise self._place.not_allowed(error) from error
            if error_code(error) in METADATA_REFUSED:
                raise metadata_refused("a lane", error) from error
            self._kafka = Transactional(self._settings, series=True)  # nobody knows the lane yet
            raise no_kafka(self._place.bootstrap_servers, error) from error

    def take_log(self) -> None:
        """See ``Transactional.take_log``."""
        self._kafka.take_log()

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions each topic has; 0 where there is none, or this client may not write to it.

        One that Kafka says nothing of is left out.
        """
        if self._asking is None:
            self._asking = make_client(AdminClient, self._reaching)
        with suppress(KafkaException):
            return of_controller(self._asking, partial(_told, self._asking, list(topics)))
        return {}

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        """Write these and the ledger in one Kafka transaction. When it returns, the commit was heard.

        Raises:
            LaneRefusedError: nothing was delivered, and the lane may be used on, but for topics that have refused a
                record: librdkafka has counted it, and the next one there would be out of order for Kafka.
            LaneLostError: after anything else.
        """
        failed: dict[int, KafkaError] = {}
        sleep(max(0.0, self._next_at - monotonic()))
        try:
            self._kafka.begin()
        except (SpentEpochError, KafkaException) as error:
            raise LaneLostError(str(error)) from error
        try:
            self._produce(records, failed)
            if not failed:
                self._add(ledger)
                self._kafka.flush(_DELIVER_SECONDS)
            if not failed:
                self._kafka.commit(_DELIVER_SECONDS)
                self._next_at = monotonic() + _MARKERS_SECONDS
                return
        except (KafkaException, BufferError) as error:
            self._give_up(failed, error)
            return
        self._give_up(failed, next(iter(failed.values())))

    def close(self) -> None:
        """Give up the connections; what is under way is left to whoever settles."""
        self._kafka.purge(0)

    def _produce(self, records: Sequence[LaneRecord], failed: dict[int, KafkaError]) -> None:
        for number, (topic, partition, key, value, headers) in enumerate(records):
            heard = partial(_note, failed, number)
            at = -1 if partition is None else partition
            try:
                self._kafka.producer.produce(topic, value, key, at, heard, headers=list(headers))
            except KafkaException as error:
                failed[number] = error.args[0]
                return

    def _add(self, ledger: Ledger) -> None:
        place = TopicPartition(self._place.topics.progress, PARTITION, OFFSET, str(ledger))
        self._kafka.add_offsets([place], self._membership, _DELIVER_SECONDS)

    def _give_up(self, failed: dict[int, KafkaError], error: Any) -> None:
        """Abort, and hear that it has succeeded, where a record was refused.

        Raises:
            LaneRefusedError: that is so.
            LaneLostError: otherwise.
        """
        fatal = isinstance(error, KafkaException) and is_fatal(error.args[0])
        try:
            if not fatal:  # what is dropped here, and not by the abort, fails the next transaction
                self._kafka.flush(_HEAR_SECONDS)
            refused = frozenset(number for number, one in failed.items() if one.code() in REFUSED)
            if refused and not fatal:
                self._kafka.abort_acknowledged(_DELIVER_SECONDS)
                raise LaneRefusedError(refused, failed[min(refused)].str())
            self._kafka.purge(_DELIVER_SECONDS)
        except (KafkaException, SystemError) as worse:
            raise LaneLostError(f"{error}, then {worse}") from worse
        if isinstance(error, KafkaException) and error_code(error) in METADATA_REFUSED:
            raise LaneLostError(str(metadata_refused("a lane", error)))
        raise LaneLostError(str(error))

    def _member(self, name: str) -> Any:
        consumer = make_client(Consumer, {**self._reaching, "group.id": name, "enable.auto.commit": False})
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()


def _note(failed: dict[int, KafkaError], number: int, error: KafkaError | None, _: Any) -> None:
    if error is not None:
        failed.setdefault(number, error)


def _told(admin: AdminClient, topics: list[str]) -> dict[str, int]:
    """Partitions of each topic; 0: it is not there, or not ours to write to. Raises where nothing came in time."""
    answers = admin.describe_topics(
        TopicCollection(topics), include_authorized_operations=True, request_timeout=_DELIVER_SECONDS
    )
    found: dict[str, int] = {}
    for name, answer in answers.items():
        try:
            said = result_of(answer)
        except KafkaException as error:
            if error_code(error) in NO_TOPIC | NOT_ALLOWED:
                found[name] = 0
            elif error_code(error) in TIMED_OUT:
                raise
        else:
            allowed = said.authorized_operations
            may = not allowed or not _MAY_WRITE.isdisjoint(allowed)
            found[name] = len(said.partitions) if may else 0
    return found
