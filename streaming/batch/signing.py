"""The job's own signature, on what it writes to the half topic."""

from typing import NamedTuple

from checkback.wire.signed_records import SigningKey, place_of, signature_header
from streaming.batch.record import Record


class Signing(NamedTuple):
    """The key, and the time that signatures bear: one for all tries of a task, so that records stay what they are.

    It is Kafka's as the driver knows it: the clock of a task's machine may be off by more than the window.
    """

    key: SigningKey
    now_ms: int

    def signed(self, record: Record) -> Record:
        """The record, whose partition is known, with its signature behind all other headers."""
        place, content = place_of(record.topic, record.partition), (record.key, record.value)
        header = signature_header(self.key, place, self.now_ms, content, record.headers)
        return record._replace(headers=[*record.headers, header])
