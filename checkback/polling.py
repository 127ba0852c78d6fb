"""Reads topics that anybody may have written to, with kafka-python."""

import logging
from collections.abc import Generator
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError, UnsupportedCodecError

_LOGGER = logging.getLogger(__name__)


def poll(consumer: KafkaConsumer, timeout_ms: int = 0, max_records: int | None = None) -> dict[Any, list[Any]]:
    """Like ``consumer.poll``, but steps over records that kafka-python cannot decode.

    A header's name that is not UTF-8 is one, which Kafka takes from anybody: without this the same error would come
    back for ever. What lies behind it in the same batch of its writer cannot be decoded either. A batch compressed
    by what this machine has no library for is another.

    Of a group, it also goes on with a join that was under way when the last poll ended, see :func:`_finish_join`.
    """
    _finish_join(consumer)
    try:
        polled: dict[Any, list[Any]] = consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
    except (CorruptRecordError, UnsupportedCodecError) as error:
        # The error does not say where, nor does any public method: only the fetcher knows what it is decoding.
        decoding = getattr(getattr(consumer, "_fetcher", None), "_next_partition_records", None)
        if decoding is None:
            raise
        place = decoding.topic_partition
        offset = consumer.position(place)
        _LOGGER.warning("Skipped the record at offset %s of %s-%s: %s", offset, place.topic, place.partition, error)
        # What has raised is read no further, but is kept as long as it fits the position: whoever goes back there, as
        # one does who is given the partition, would be caught in an endless loop inside of poll.
        decoding.drain()
        consumer.seek(place, _behind(error, offset))
        return {}
    return polled


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


def _behind(error: Exception, offset: int) -> int:
    """Where to go on: of a batch that cannot be unpacked, behind it, or each record would cost a fetch."""
    trace = error.__traceback__ if isinstance(error, UnsupportedCodecError) else None
    while trace is not None:
        batch = trace.tb_frame.f_locals.get("batch")
        if hasattr(batch, "base_offset") and hasattr(batch, "last_offset_delta"):
            return max(offset, int(batch.base_offset) + int(batch.last_offset_delta)) + 1
        trace = trace.tb_next
    return offset + 1
