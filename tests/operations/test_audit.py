"""What is told beside a decision: whether the job has taken it."""

from checkback.operations.audit import AuditLine, RejectedRecord, not_taken
from checkback.wire.audit import AuditKind, AuditRecord


def decision(time_ms: int, *halves: str, key: str = "ops-1") -> AuditLine:
    return AuditLine(time_ms, AuditRecord(AuditKind.DECISION, "ann", "commit", key=key, halves=halves))


def refused(time_ms: int, half: str, key: str = "ops-1", source: str = "operator") -> RejectedRecord:
    return RejectedRecord("so", "cb.op:0:1", "tx", "shop", "", "commit", time_ms, half, source, key)


def test_an_op_counts_for_the_last_decision_before_it() -> None:
    lines = [
        decision(10, "0:1", "0:2"),
        AuditLine(15, AuditRecord(AuditKind.POLICY, "", "another", halves=("0:1",))),
        decision(20, "0:1"),
        decision(30, "0:1", key="other"),
    ]
    assert not_taken(lines, []) == [0, 0, 0, 0]
    assert not_taken(lines, [refused(11, "0:2"), refused(12, "0:2"), refused(11, "0:1")]) == [2, 0, 0, 0]
    assert not_taken(lines, [refused(25, "0:1")]) == [0, 0, 1, 0], "it was decided, and then decided again"
    assert not_taken(lines, [refused(40, "0:1", key="other")]) == [0, 0, 0, 1]
    strangers = [refused(9, "0:1"), refused(12, "0:3"), refused(12, "0:1", key=""), refused(12, "0:1", source="check")]
    assert not_taken(lines, strangers) == [0, 0, 0, 0]
