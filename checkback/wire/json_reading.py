"""Reads JSON that anybody may have written: into a record, or beside an offset."""

import json
import re
from typing import Any

_MOST_LEVELS = 50
_PART_COST = 5
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_NUMBER = 2**63 - 1


def read_json(content: str | bytes | None) -> Any:
    """What it says.

    Raises:
        ValueError: it is no JSON as ``docs/protocol.md`` has it: UTF-8 without ``NaN``, nested at most 50 levels deep.
    """
    text = _text(content)
    _refuse_deep(text)
    return json.loads(text, parse_constant=_no_number)


def read_sayable(content: str | bytes | None) -> Any:
    """Likewise, where people are shown what it says, or another record is written of it.

    Raises:
        ValueError: likewise; or there is text in it that UTF-8 cannot spell.
    """
    said = read_json(content)
    if _HALF_A_CHARACTER.search(_text(content)):
        json.dumps(said, ensure_ascii=False).encode()  # raises where the other half is missing
    return said


def read_object(content: str | bytes | None) -> dict[str, Any]:
    """Likewise, of an object.

    Raises:
        ValueError: likewise; or it is something else.
    """
    said = read_sayable(content)
    if not isinstance(said, dict):
        raise ValueError(f"it must be a JSON object, not {type(said).__name__}")  # noqa: TRY004  (as all that is wrong)
    return said


def text_of(said: dict[str, Any], name: str, most_bytes: int) -> str:
    """A field that is text.

    Raises:
        ValueError: it is not there, something else, or longer.
    """
    found = said.get(name)
    if not isinstance(found, str) or len(found.encode()) > most_bytes:
        raise ValueError(f"{name} must be text of at most {most_bytes} bytes, not {found!r:.80}")
    return found


def number_of(said: dict[str, Any], name: str, most: int = _MOST_NUMBER) -> int:
    """A field that is a whole number from 0.

    Raises:
        ValueError: it is not there, something else, or larger.
    """
    found = said.get(name)
    if type(found) is not int or not 0 <= found <= most:
        raise ValueError(f"{name} must be a whole number from 0 to {most}, not {found!r:.80}")
    return found


def values_in(content: bytes, most: int) -> int:
    """About how many texts and other values there are, to be counted before they are converted.

    Counting takes 0.1 s at most; a body of 26 MB with nothing but brackets took 48 s and 1.6 GiB to convert. ``most``
    says when it is enough.
    """
    plain = content.replace(rb"\\", b"").replace(rb"\"", b"")
    values = plain.count(b'"') // 2
    if values > most:
        return values
    outside = b"".join(plain.split(b'"')[::2])  # of texts
    parts = outside.count(b"[") + outside.count(b"{")  # ten times as expensive as texts
    return max(values + parts + outside.count(b","), parts * _PART_COST)


def _refuse_deep(text: str) -> None:
    """Raises ValueError for JSON that is nested more deeply than 50 levels; 5 are needed.

    Python's own limit is the depth of the stack that is left: the same value would be read in one place and refused in
    another.
    """
    if text.count("[") + text.count("{") <= _MOST_LEVELS:
        return
    # not one by one: 8 MiB may be brackets alone
    unescaped = text.encode(errors="replace").replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.translate(_SQUARE, _NO_BRACKETS).split(b'"')[::2])
    for _ in range(_MOST_LEVELS):
        brackets, before = brackets.replace(b"[]", b""), len(brackets)
        if len(brackets) == before and brackets.count(b"[") <= _MOST_LEVELS:
            return  # what is left is not closed
    if b"[" in brackets:
        raise ValueError("it is nested too deeply")


def _text(content: str | bytes | None) -> str:
    return content.decode() if isinstance(content, bytes) else content or ""


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
