"""Reads topics that anybody may have written to, with kafka-python."""

import logging
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError

_LOGGER = logging.getLogger(__name__)


def poll(consumer: KafkaConsumer, timeout_ms: int = 0) -> dict[Any, list[Any]]:
    """Like ``consumer.poll``, but steps over records that kafka-python cannot decode.

    A header's name that is not UTF-8 is one, which Kafka takes from anybody: without this the same error would come
    back for ever. What lies behind it in the same batch of its writer cannot be decoded either.
    """
    try:
        polled: dict[Any, list[Any]] = consumer.poll(timeout_ms=timeout_ms)
    except CorruptRecordError as error:
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
        consumer.seek(place, offset + 1)
        return {}
    return polled
