"""Reads topics that anybody may have written to, with kafka-python."""

from collections.abc import Callable, Generator
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from checkback.exceptions import InstallationError

_PACKAGES = {"zstd": "zstandard", "lz4": "lz4", "snappy": "python-snappy"}


class EscapedHeaders(list[tuple[str, bytes | None]]):
    r"""The headers of a record of which a name is not UTF-8: what is not, is spelled like ``\xff`` there."""


def poll(consumer: KafkaConsumer, timeout_ms: int = 0, max_records: int | None = None) -> dict[Any, list[Any]]:
    """Like ``consumer.poll``, but gives records with any header names: see :class:`EscapedHeaders`.

    Kafka takes a name that is not UTF-8 from anybody. kafka-python alone raises then, at each poll, and gives nothing
    of what lies behind it in the same batch of its writer.

    Nothing is passed over. Of a group, it also goes on with a join that was under way when the last poll ended, see
    :func:`_finish_join`.

    Raises:
        InstallationError: this Python has no library for what the messages are compressed with.
        CorruptRecordError: what came of a partition is damaged. The next poll asks for it again.
    """
    _finish_join(consumer)
    fetcher: Any = getattr(consumer, "_fetcher", None)
    if fetcher is not None and fetcher.PartitionRecords is not _Fetched:
        fetcher.PartitionRecords = _Fetched
    try:
        polled: dict[Any, list[Any]] = consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
    except CorruptRecordError:
        _fetch_again(fetcher)
        raise
    except UnsupportedCodecError as error:
        raise _missing(error, fetcher) from error
    return polled


class _Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python has no types
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

    def _unpack_records(self, place: Any, records: Any, *deserializers: Any) -> Generator[Any, None, None]:
        batches = _Batches(records)
        while True:
            try:
                yield from super()._unpack_records(place, batches, *deserializers)
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


def _fetch_again(fetcher: Any) -> None:
    """Forget what was fetched, up to what is given next: it may come whole the next time."""
    decoding = getattr(fetcher, "_next_partition_records", None)
    if decoding is not None:
        decoding.drain()


def _missing(error: UnsupportedCodecError, fetcher: Any) -> InstallationError:
    # The error does not say where, nor does any public method: only the fetcher knows what it is decoding.
    decoding = getattr(fetcher, "_next_partition_records", None)
    where = f"{decoding.topic_partition.topic}-{decoding.topic_partition.partition}" if decoding else "a partition"
    codec = next((name for name in _PACKAGES if f" {name} " in f"{error} "), "")
    if not codec:
        return InstallationError(
            f"Messages of {where} are compressed in a way that kafka-python does not know: {error}."
        )
    return InstallationError(
        f"Messages of {where} are compressed with {codec}, and this Python has no library for that: pip install "
        f"{_PACKAGES[codec]}. None of them was passed over."
    )


def _finish_join(consumer: KafkaConsumer) -> None:
    """Have a join go on that was under way when the last poll ended.

    kafka-python 3.0 forgets it when the group's leader joins because the topics' partitions have changed: the join that
    has begun has noted the change, so nothing asks for it any more. No partition would come, nor a heartbeat be sent,
    for ever. And one that has ended since then it begins again: two members that pause between their polls would
    make each other join, and share nothing out, for ever. No public method helps.
    """
    coordinator: Any = getattr(consumer, "_coordinator", None)
    if coordinator is None or not getattr(coordinator, "rejoining", False):
        return
    coordinator.request_rejoin()
    join = getattr(coordinator, "_join_task", None)
    if join is not None and not isinstance(join, _Join):
        coordinator._join_task = _Join(join)  # noqa: SLF001  (see above)


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
