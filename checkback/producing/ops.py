"""The record of an op that a producer writes."""

from typing import NamedTuple

from checkback.kafka.transport import OutgoingRecord
from checkback.wire.lanes import LaneFact, stating
from checkback.wire.limits import MAX_REMARK_BYTES
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers


class OpContent(NamedTuple):
    """What an op says of a half message."""

    action: Action
    remark: str = ""
    fact: LaneFact | None = None


def op_record(topic: str, group: str, transaction_id: str, half: HalfPosition, verdict: OpContent) -> OutgoingRecord:
    """The record, on the half message's partition number: that is where the query looks, and what orders its ops."""
    headers = op_headers(transaction_id, group, half, verdict.action, Source.PRODUCER)
    # the local transaction is over: whatever a remark is, it must not keep the op from being written
    content = str(verdict.remark).encode(errors="replace")[:MAX_REMARK_BYTES].decode(errors="ignore").encode()
    return OutgoingRecord(topic, half.partition, None, content, stating(headers, verdict.fact))
