"""What counts as JSON that can be read, of what anybody may have written."""

import json
from typing import Any

import pytest

from checkback.wire.json_reading import number_of, read_json, read_object, read_sayable, text_of


@pytest.mark.parametrize("said", [{}, {"a": [1, None, "\U0001f600", 2**70]}, {"a": "[" * 60}, {'\\"[': ["]\\"] * 60}])
def test_what_we_write_is_read(said: dict[str, Any]) -> None:
    assert read_object(json.dumps(said)) == read_object(json.dumps(said, ensure_ascii=False).encode()) == said


@pytest.mark.parametrize(
    "content",
    [
        *(None, "", b"", b"\xff", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), "NaN", "[-Infinity]"),
        *("[" * 51 + "]" * 51, '{"[": ' * 51 + "1" + "}" * 51, "[]" * 51 + "[" * 100_000),
        "[]" * 51 + '"' + '\\"' * 500_000,  # a pattern that tried again behind each quote needed an hour
        "9" * 5_000,
    ],
)
def test_what_is_no_json(content: str | bytes | None) -> None:
    with pytest.raises(ValueError):
        read_json(content)


def test_half_a_character_cannot_be_said() -> None:
    assert read_json('["\\ud800"]') == ["\ud800"]
    for text in ('["\\ud800"]', '{"\\udC00": 1}', '["\\ud83d\\ud83d\\ude00"]'):
        with pytest.raises(ValueError):
            read_sayable(text)
    assert read_sayable('["\\ud83d\\ude00", "\\\\ud800"]') == ["\U0001f600", "\\ud800"]


def test_what_is_no_object() -> None:
    for text in ("[]", "1", "null", '"{}"'):
        with pytest.raises(ValueError, match="must be a JSON object"):
            read_object(text)


def test_fields() -> None:
    assert text_of({"a": "ä"}, "a", 2) == "ä"
    assert [number_of({"a": number}, "a") for number in (0, 2**63 - 1)] == [0, 2**63 - 1]
    for said in ({}, {"a": None}, {"a": 1}, {"a": "ää"}):
        with pytest.raises(ValueError, match="a must be text"):
            text_of(said, "a", 2)
    wrong: list[dict[str, Any]] = [{}, {"a": None}, {"a": True}, {"a": "1"}, {"a": 1.0}, {"a": -1}, {"a": 2**63}]
    for one in wrong:
        with pytest.raises(ValueError, match="a must be a whole number"):
            number_of(one, "a")
