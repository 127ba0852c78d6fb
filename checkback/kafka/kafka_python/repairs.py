"""All that we use of kafka-python's private names, each to repair something that no public method helps with.

Each was needed in 3.0.12; the names are there in 3.0.0, 3.0.5, 3.0.9 and 3.0.12, and ``pyproject.toml`` admits no 3.1.
No issue of dpkp/kafka-python was found for any of them. :data:`PRIVATE_NAMES` lists what they need. A client that lacks
one is refused when it is made (:func:`refuse_unknown_version`), rather than repaired in part: it would stand still, or
pass over records, in silence.

| repair | what kafka-python 3.0 does without it |
| --- | --- |
| :class:`Fetched` | a header name that is not UTF-8 fails each poll; what failed is looked for in an endless loop |
| :func:`fetch_again` | what came damaged of a partition is never fetched again |
| :func:`finish_join` | a join that the last poll did not finish is forgotten |
| :func:`begin_anew_when_lost` | a member that was put out of its group keeps its partitions beside their new owner |
| :func:`ask_for_another_producer_id` | a producer never writes again after a time-out, or a refusal |
| :func:`close_producer` | a producer is not closed when its last flush fails |
| :func:`create_no_topics` | ``allow_auto_create_topics=False`` is ignored: asking about a topic creates it |
| :class:`GroupAdmin` | a group member whose metadata is not a consumer's hides all groups asked about with it |
| :func:`is_hidden` | (no repair: it asks for all topics, among which one that may not be seen is simply missing) |
| :func:`topic_id` | (no repair: the id is known, and no public method gives it) |
"""

from collections.abc import Callable, Generator, Mapping
from struct import error as StructError  # noqa: N812  (an exception, as its name says there)
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, KafkaError, TopicAuthorizationFailedError
from kafka.producer.transaction_manager import TransactionState
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataRequest
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from checkback.exceptions import InstallationError

PRIVATE_NAMES: Mapping[type, tuple[str, ...]] = {
    KafkaConsumer: (
        "_manager.cluster.config",
        *("_fetcher.PartitionRecords", "_fetcher._next_partition_records"),
        *("_cluster.topic_id", "_net.run", "_manager.send"),
        *("_coordinator.rejoining", "_coordinator.request_rejoin", "_coordinator._join_task"),
        "_coordinator.reset_generation",
    ),
    KafkaProducer: (
        "_metadata.config",
        *("_transaction_manager.reset_producer_id", "_transaction_manager._lock"),
        *("_transaction_manager._current_state", "_transaction_manager.classify_batch_error"),
        *("_transaction_manager._FATAL_ERRORS", "_transaction_manager.ERROR_CLASS_NEEDS_PRODUCER_ID_RESET"),
        "_transaction_manager.ERROR_CLASS_FATAL",
    ),
    KafkaAdminClient: ("_describe_groups_process_response", "_manager.cluster.config"),
}
"""By kind of client. Where the first part of a name is None (a consumer without a group), the rest is not needed."""


def refuse_unknown_version(client: Any) -> None:
    """Refuse a client that lacks a name which the repairs need.

    Raises:
        InstallationError: kafka-python is of a version that Checkback was not tried with.
    """
    names = next(found for kind, found in PRIVATE_NAMES.items() if isinstance(client, kind))
    missing = [name for name in names if not _has(client, name)]
    if missing:
        raise InstallationError(
            f"kafka-python {kafka.__version__} is not a version that Checkback was tried with: it has no "
            f"{', '.join(missing)}. Install the version that Checkback names."
        )


def _has(client: Any, name: str) -> bool:
    for part in name.split("."):
        if client is None:
            return True
        if not hasattr(client, part):
            return False
        client = getattr(client, part)
    return True


class EscapedHeaders(list[tuple[str, bytes | None]]):
    r"""The headers of a record of which a name is not UTF-8: what is not, is spelled like ``\xff`` there."""


def use_fetched(consumer: Any) -> None:
    """Have what the consumer fetches from now on read as :class:`Fetched`."""
    fetcher = consumer._fetcher  # noqa: SLF001  (see above)
    if fetcher.PartitionRecords is not Fetched:
        fetcher.PartitionRecords = Fetched


class Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python has no types
    """What was fetched of a partition."""

    _failure: Exception | None = None

    def take(self, n: int | None = None) -> list[Any]:
        """The next records. What has failed fails again: kafka-python alone forgets that, at times.

        It does so of a partition that is paused or sought meanwhile, finds neither records nor an end there when it
        comes back to it, and looks for them in an endless loop.
        """
        if self._failure is not None:
            raise self._failure
        try:
            taken: list[Any] = super().take(n)
        except Exception as error:
            self._failure = error
            raise
        return taken

    def _unpack_records(self, partition: Any, records: Any, *deserializers: Any) -> Generator[Any, None, None]:
        batches = _Batches(records)
        while True:
            try:
                yield from super()._unpack_records(partition, batches, *deserializers)
            except CorruptRecordError:
                if not batches.go_on_escaping():
                    raise
            else:
                return


class _Batches:
    """The batches of what was fetched; one that kafka-python has stopped at comes again, to be continued there."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self._again = False
        self._batch: Any = None

    def next_batch(self) -> Any:
        if not self._again:
            self._batch = self._records.next_batch()
        self._again = False
        return self._batch

    def go_on_escaping(self) -> bool:
        """``False``: it is not for a name that it has stopped, or there is no telling."""
        # no memory is spared for what is not a batch of today's format, or is not as its checksum says
        if type(self._batch) is not DefaultRecordBatch or not self._batch._decompressed:  # noqa: SLF001  (no public name says so)
            return False
        self._batch.__class__ = _EscapingBatch
        self._again = True
        return True


class _EscapingBatch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """A batch of which some record has a name that is not UTF-8."""

    __slots__ = ()

    def validate_crc(self) -> bool:
        return True  # it was looked at before

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except CorruptRecordError:
            if self._next_record_index >= self._num_records:
                raise
            return _escaped(self, super().__next__)


def _escaped(batch: Any, read_one: Callable[[], Any]) -> Any:
    """The batch's next record; raises what kafka-python does when it is not for a name that it cannot be decoded."""
    whole, begin = batch._buffer, batch._pos  # noqa: SLF001  (no public names)
    length, start = decode_varint(whole, begin)
    batch._buffer, batch._pos = _Escaping(whole[begin : start + length]), 0  # noqa: SLF001  (likewise)
    try:
        record = read_one()
    finally:
        batch._buffer, batch._pos = whole, begin + batch._pos  # noqa: SLF001  (likewise)
    record._headers = EscapedHeaders(record.headers)  # noqa: SLF001  (it has no setter)
    return record


class _Escaping(bytearray):
    """The bytes of a record, for one who takes pieces of it, and decodes some."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Escaping(found) if isinstance(index, slice) else found

    def decode(self, *_: Any) -> str:
        return super().decode(errors="backslashreplace")


def fetch_again(consumer: Any) -> None:
    """Forget what was fetched, up to what is given next: it may come whole the next time."""
    decoding = consumer._fetcher._next_partition_records  # noqa: SLF001  (see above)
    if decoding is not None:
        decoding.drain()


def being_decoded(consumer: Any) -> TopicPartition | None:
    """The partition whose records the consumer could not decode: its error does not say."""
    decoding = consumer._fetcher._next_partition_records  # noqa: SLF001  (see above)
    return None if decoding is None else decoding.topic_partition


def finish_join(consumer: Any) -> None:
    """Have a join go on that was under way when the last poll ended.

    kafka-python forgets it when the group's leader joins because the topics' partitions have changed: the join that
    has begun has noted the change, so nothing asks for it any more. No partition would come, nor a heartbeat be sent,
    for ever. And one that has ended since then it begins again: two members that pause between their polls would
    make each other join, and share nothing out, for ever.
    """
    coordinator = consumer._coordinator  # noqa: SLF001  (see above)
    if coordinator is None or not coordinator.rejoining:
        return
    coordinator.request_rejoin()
    join = coordinator._join_task  # noqa: SLF001  (likewise)
    if join is not None and not isinstance(join, _Join):
        coordinator._join_task = _Join(join)  # noqa: SLF001  (likewise)


class _Join:
    """kafka-python's join, of which it does not look whether it has ended before it takes what came of it."""

    is_done = False

    def __init__(self, join: Any) -> None:
        self._join = join

    def __getattr__(self, name: str) -> Any:
        return getattr(self._join, name)

    def __await__(self) -> Generator[Any, Any, Any]:
        ended: Generator[Any, Any, Any] = self._join.__await__()
        return ended


def begin_anew_when_lost(consumer: Any) -> None:
    """Have a join that the group answers with "nobody knows you" begin again, with all partitions lost.

    kafka-python looks for that when a join begins, and not when it is the join itself that is told so, as after the
    process was suspended for longer than its session. It would join as somebody new who has partitions that are
    another's by now: both would read them, and brokers take offsets from both.
    """
    coordinator = consumer._coordinator  # noqa: SLF001  (see above)
    if coordinator is None:
        return
    reset = coordinator.reset_generation

    def reset_generation(*arguments: Any, **named: Any) -> None:
        reset(*arguments, **named)
        coordinator.rejoining = False

    coordinator.reset_generation = reset_generation


def is_hidden(consumer: KafkaConsumer, topic: str) -> bool:
    """Whether Kafka does not let this user see the topic: it says so only when it is asked for that one.

    Asking makes no topic.

    Raises:
        KafkaError: it does not answer.
    """
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    answer = consumer._net.run(consumer._manager.send, request)  # noqa: SLF001  (see above)
    return any(one.error_code == TopicAuthorizationFailedError.errno for one in answer.topics)


def create_no_topics(client: Any) -> None:
    """Let no request of this client create a topic. Its constructor has sent none that names one."""
    cluster = client._metadata if isinstance(client, KafkaProducer) else client._manager.cluster  # noqa: SLF001  (see above)
    cluster.config["allow_auto_create_topics"] = False


def topic_id(consumer: Any, topic: str) -> object:
    """What tells a topic from one of the same name that was made again, as the consumer last heard."""
    return consumer._cluster.topic_id(topic)  # noqa: SLF001  (see above)


def ask_for_another_producer_id(client: KafkaProducer) -> None:
    """Have an idempotent producer go on after a record that Kafka did not acknowledge in time, or has refused.

    kafka-python gives up its producer id then, rightly, and never asks for another one, since it takes itself for
    one that has begun: whatever it is given from then on times out, for ever. And after a refusal, of one record that
    is too large, it fails everything else with the same error, for ever; Java's asks for another id (KIP-360).
    """
    manager: Any = client._transaction_manager  # noqa: SLF001  (see above)
    if manager is None or manager.is_transactional():  # it is not idempotent; or ends, and another takes its place
        return
    give_up = manager.reset_producer_id

    def give_up_and_begin_again() -> None:
        with manager._lock:  # noqa: SLF001  (likewise)
            give_up()
            manager._current_state = TransactionState.UNINITIALIZED  # noqa: SLF001  (likewise)

    manager.reset_producer_id = give_up_and_begin_again
    classify = manager.classify_batch_error

    def classify_refusals(error: Any, *arguments: Any, **named: Any) -> Any:
        found = classify(error, *arguments, **named)
        kind = error if isinstance(error, type) else type(error)
        lasting = found != manager.ERROR_CLASS_FATAL or kind in manager._FATAL_ERRORS  # noqa: SLF001  (likewise)
        return found if lasting else manager.ERROR_CLASS_NEEDS_PRODUCER_ID_RESET

    manager.classify_batch_error = classify_refusals


def close_producer(client: KafkaProducer, seconds: float) -> None:
    """Write what is waiting, for at most ``seconds``, and end, also when Kafka is away. Never raises KafkaError."""
    try:
        client.close(timeout=seconds)
    except KafkaError:
        # kafka-python flushes first, and is not closed when that fails; what is left is reported as lost
        client.flush = lambda timeout: timeout
        client.close(timeout=0)


_PARTS = {"member_metadata": ConsumerProtocolSubscription, "member_assignment": ConsumerProtocolAssignment}


class GroupAdmin(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """Describes groups whatever their members have said of themselves.

    kafka-python alone fails where that is not in the form of consumers, which a broker does not look at: one such
    member hides all groups that were asked about together. Here it says nothing.
    """

    def _describe_groups_process_response(self, response: Any) -> Any:
        for group in response.groups:
            for member in group.members:
                for name, form in _PARTS.items():
                    if not _can_be_read(form, getattr(member, name)):
                        setattr(member, name, b"")
        return super()._describe_groups_process_response(response)


def _can_be_read(form: Any, said: bytes | None) -> bool:
    try:
        form.decode(said or b"")
    except (ValueError, StructError):
        return False
    return True
