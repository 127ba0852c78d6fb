"""Whether a record of a producer group with keys is signed by who may have written it."""

from collections.abc import Mapping
from typing import NamedTuple

from access.policy import AccessPolicy
from access.signers import SIGNERS, Writer, signs
from checkback.wire.protocol import SIGNATURE
from checkback.wire.signed_records import WINDOW_MS, SigningKey, Written, WrittenSignature, content_hash

_MOST_GROUPS = 10_000


class SignedRecord(NamedTuple):
    """What is judged of a record."""

    group: str
    writer: Writer
    signature: bytes | None
    time_ms: int
    """Kafka's."""
    ours: bytes
    """The headers of ours that are signed: ``signed_records.spelled``."""
    key: bytes | None
    value: bytes | None
    others: Written
    """The second of what ``signed_records.parted`` gives."""
    whole: bool
    """False: key, value and others are not here, and are judged when they are read again."""


class Verifier:
    """Of one policy. ``keys`` has the secret of each key that it names."""

    def __init__(self, policy: AccessPolicy, keys: Mapping[str, SigningKey]) -> None:
        self._policy = policy
        self._keys = keys
        self._signs: dict[tuple[str, Writer], frozenset[str] | None] = {}

    def needed(self, group: str) -> bool:
        """Whether what is written of a group has to be signed."""
        return self._may_sign(group, Writer.PRODUCER) is not None

    def reason(self, record: SignedRecord, place: bytes) -> str:
        """Why a record is not taken; empty: it is. ``place``: ``signed_records.place_of``."""
        may = self._may_sign(record.group, record.writer)
        if may is None:
            return ""
        said = WrittenSignature.parse(record.signature)
        if said is None:
            missing = "is not what a signature looks like" if record.signature else "is missing"
            return f"group {record.group} has keys, and {SIGNATURE} {missing}"
        if said.key_id not in may:
            return (
                f"it is signed with key {said.key_id}; {WRITES[record.writer]} of group {record.group} needs "
                f"{SIGNERS[record.writer].what}"
            )
        return self._unfit(said, record, place)

    def _unfit(self, said: WrittenSignature, record: SignedRecord, place: bytes) -> str:
        if not said.fits(self._keys[said.key_id], place, record.ours):
            return f"its signature does not fit key {said.key_id}: another secret, another place, or changed headers"
        if abs(record.time_ms - said.time_ms) > WINDOW_MS:
            return _far_away(record.time_ms - said.time_ms)
        if record.whole and content_hash(record.key, record.value, record.others) != said.content:
            return CHANGED
        return ""

    def _may_sign(self, group: str, writer: Writer) -> frozenset[str] | None:
        asked = (group, writer)
        if asked not in self._signs:
            if len(self._signs) >= _MOST_GROUPS:  # somebody makes names up
                self._signs.clear()
            self._signs[asked] = signs(self._policy, group, writer)
        return self._signs[asked]


WRITES = {
    Writer.PRODUCER: "what a producer writes",
    Writer.CHECK: "the answer to a check",
    Writer.OPERATOR: "what an operator decides",
    Writer.JOB: "what the job holds",
}
CHANGED = "its key, value or headers are not those that were signed"


def _far_away(late_ms: int) -> str:
    when = f"{late_ms // 1000} s before Kafka had it" if late_ms > 0 else f"{-late_ms // 1000} s after Kafka had it"
    return f"it was signed {when}, more than {WINDOW_MS // 1000} s: it is a copy, or a clock is wrong"
