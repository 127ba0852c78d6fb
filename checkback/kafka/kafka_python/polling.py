"""Reads topics that anybody may have written to, with kafka-python."""

from typing import Any

from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError, UnsupportedCodecError

from checkback.exceptions import InstallationError
from checkback.kafka.kafka_python.repairs import (
    EscapedHeaders,
    being_decoded,
    fetch_again,
    finish_join,
    use_fetched,
)

__all__ = ["EscapedHeaders", "poll"]

_PACKAGES = {"zstd": "zstandard", "lz4": "lz4", "snappy": "python-snappy"}


def poll(consumer: KafkaConsumer, timeout_ms: int = 0, max_records: int | None = None) -> dict[Any, list[Any]]:
    """Like ``consumer.poll``, but gives records with any header names: see :class:`EscapedHeaders`.

    Kafka takes a name that is not UTF-8 from anybody. kafka-python alone raises then, at each poll, and gives nothing
    of what lies behind it in the same batch of its writer.

    Nothing is passed over. Of a group, it also goes on with a join that was under way when the last poll ended.

    Raises:
        InstallationError: this Python has no library for what the messages are compressed with.
        CorruptRecordError: what came of a partition is damaged. The next poll asks for it again.
    """
    finish_join(consumer)
    use_fetched(consumer)
    try:
        polled: dict[Any, list[Any]] = consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
    except CorruptRecordError:
        fetch_again(consumer)
        raise
    except UnsupportedCodecError as error:
        raise _missing(error, being_decoded(consumer)) from error
    return polled


def _missing(error: UnsupportedCodecError, decoding: Any) -> InstallationError:
    where = f"{decoding.topic}-{decoding.partition}" if decoding else "a partition"
    codec = next((name for name in _PACKAGES if f" {name} " in f"{error} "), "")
    if not codec:
        return InstallationError(
            f"Messages of {where} are compressed in a way that kafka-python does not know: {error}."
        )
    return InstallationError(
        f"Messages of {where} are compressed with {codec}, and this Python has no library for that: pip install "
        f"{_PACKAGES[codec]}. None of them was passed over."
    )
