"""Records of the audit topic: read as they were written, and nothing else is one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.exceptions import ProtocolError
from checkback.wire.audit import AuditKind, AuditRecord

DECIDED = AuditRecord(AuditKind.DECISION, "Ada", "commit", key="ops-1", group="shop", number=2, halves=("0:1", "1:7"))
_TEXTS = st.text(max_size=50).filter(lambda text: text.encode(errors="replace").decode() == text)


@given(st.sampled_from(AuditKind), _TEXTS, _TEXTS, st.integers(0, 2**63 - 1), st.lists(_TEXTS, max_size=3))
def test_it_is_read_as_it_was_written(kind: AuditKind, who: str, why: str, number: int, halves: list[str]) -> None:
    record = AuditRecord(kind, who, "what", group=who, topic=why, number=number, halves=tuple(halves), why=why)
    assert AuditRecord.parse(record.value) == record


def test_what_is_empty_is_left_out() -> None:
    written = json.loads(AuditRecord(AuditKind.REFUSED, "shop", "why").value)
    assert written == {"kind": "refused", "who": "shop", "what": "why", "number": 1}


@pytest.mark.parametrize(
    "changed",
    [
        *({"kind": "receipt"}, {"kind": "praise"}, {"who": 1}, {"number": -1}, {"number": True}),
        *({"number": 2**63}, {"halves": 7}),
    ],
)
def test_anything_else_is_none(changed: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="no record of the audit topic"):
        AuditRecord.parse(json.dumps({**json.loads(DECIDED.value), **changed}).encode())


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"{}", b"[" * 100_000, b'"text"'])
def test_nor_is_what_is_no_object(value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        AuditRecord.parse(value)
