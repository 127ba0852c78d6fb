"""A transport whose half messages and ops are signed: see :mod:`checkback.wire.signed_records`."""

from collections.abc import Sequence
from time import time_ns

from checkback.exceptions import HalfMessageError
from checkback.kafka.transport import Appended, Heard, Lost, OutgoingRecord, TellingTransport, Transport
from checkback.wire.limits import refuse_too_large
from checkback.wire.signed_records import WINDOW_MS, SigningKey, place_of, signature_header


def signed(record: OutgoingRecord, signing: SigningKey, now_ms: int | None = None) -> OutgoingRecord:
    """The record with its signature behind all other headers, as of now."""
    now_ms = time_ns() // 1_000_000 if now_ms is None else now_ms
    place, content = place_of(record.topic, record.partition), (record.key, record.value)
    return record._replace(headers=[*record.headers, signature_header(signing, place, now_ms, content, record.headers)])


def signing_transport(transport: Transport, signing: SigningKey) -> Transport:
    """The transport, with all that it writes signed. It can tell what the given one can."""
    kind = _SignedTelling if isinstance(transport, TellingTransport) else _Signed
    return kind(transport, signing)


class _Signed(Transport):
    def __init__(self, transport: Transport, signing: SigningKey) -> None:
        self._transport = transport
        self._signing = signing

    def partitions(self, half_topic: str, op_topic: str) -> int:
        return self._transport.partitions(half_topic, op_topic)

    def missing(self, topics: Sequence[str]) -> list[str]:
        return self._transport.missing(topics)

    def write_half(self, record: OutgoingRecord) -> Appended:
        now_ms = time_ns() // 1_000_000
        record = signed(record, self._signing, now_ms)
        refuse_too_large(record.value, record.key, record.headers)  # it may have been as large as may be
        appended = self._transport.write_half(record)
        if appended.time_ms >= 0:
            refuse_other_time(appended.time_ms - now_ms)
        return appended

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        self._transport.write_op(signed(record, self._signing), lost)

    def flush(self, seconds: float) -> None:
        self._transport.flush(seconds)

    def close(self, seconds: float) -> None:
        self._transport.close(seconds)


def refuse_other_time(ms: int) -> None:
    """Before the local transaction runs: as the job will judge a half message that Kafka dates so much later.

    Raises:
        HalfMessageError: the job will reject it.
    """
    if abs(ms) > WINDOW_MS:
        raise HalfMessageError(
            f"Kafka's clock is {abs(ms) / 1000:.0f} s {'ahead of' if ms > 0 else 'behind'} this machine's, or the half "
            f"message was that long on its way. Its signature holds for {WINDOW_MS // 1000} s, so the job will reject "
            "it, and the local transaction was not run: set this machine's clock (NTP)."
        )


class _SignedTelling(_Signed):
    _transport: TellingTransport

    def write_heard(self, record: OutgoingRecord, heard: Heard) -> None:
        self._transport.write_heard(signed(record, self._signing), heard)

    def hear(self) -> None:
        self._transport.hear()
