"""How large a message may be: the SDK refuses what the job would reject."""

from typing import Any

import pytest

from checkback.exceptions import ProtocolError
from checkback.limits import MAX_HEADER_BYTES, MAX_HEADERS, MAX_KEY_BYTES, MAX_VALUE_BYTES, refuse_too_large

GIVEN: dict[str, Any] = {
    "value": bytes(MAX_VALUE_BYTES),
    "key": bytes(MAX_KEY_BYTES),
    "headers": [("a", b"")] * MAX_HEADERS,
}


def test_what_is_as_large_as_may_be() -> None:
    refuse_too_large(**GIVEN)
    refuse_too_large(None, None, [("a", bytes(MAX_HEADER_BYTES - 1))])


@pytest.mark.parametrize(
    ("larger", "said"),
    [
        ({"value": bytes(MAX_VALUE_BYTES + 1)}, "value: 16,777,217 bytes, at most 16,777,216"),
        ({"key": bytes(MAX_KEY_BYTES + 1)}, "key: 1,048,577 bytes, at most 1,048,576"),
        ({"headers": [("a", b"")] * (MAX_HEADERS + 1)}, "headers: 1,001 headers, at most 1,000"),
        ({"headers": [("ü", bytes(MAX_HEADER_BYTES - 1))]}, "headers: 1,048,577 bytes, at most 1,048,576"),
    ],
    ids=["value", "key", "number of headers", "headers"],
)
def test_what_is_larger_by_one(larger: dict[str, Any], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        refuse_too_large(**{**GIVEN, **larger})
