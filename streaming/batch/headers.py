"""Headers as the query carries them: Spark's ``to_json`` of an array of names and values."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable

import orjson

from checkback.wire import protocol

Headers = list[tuple[str, bytes | None]]
MARK_OF_OURS = f'"{protocol.RESERVED_PREFIX}'
"""Without it packed headers have none of ours among them."""


def unpack_headers(packed: str | None) -> Headers:
    """Headers of Spark's ``to_json`` of its header array, in their order; a null value is left out there."""
    if not packed:
        return []
    written = orjson.loads(packed)
    try:
        return [(header["key"], a2b_base64(header["value"])) for header in written]
    except KeyError:  # of a null value
        return [(header["key"], a2b_base64(header["value"]) if "value" in header else None) for header in written]


def unpack_all(packed: Iterable[str | None]) -> tuple[list[int], list[str], list[bytes | None]]:
    """Of many records how many headers each has; all of their names; all of their values."""
    rows = orjson.loads(f"[{','.join(text or '[]' for text in packed)}]")
    headers = [header for row in rows for header in row]
    values = [None if (value := header.get("value")) is None else a2b_base64(value) for header in headers]
    return [len(row) for row in rows], [header["key"] for header in headers], values


def application_headers(packed: str | None) -> Headers:
    """Those that consumers shall see: a half message not in our SDK's order is kept with the protocol's own."""
    return [pair for pair in unpack_headers(packed) if not pair[0].startswith(protocol.RESERVED_PREFIX)]


def packed_headers(headers: Headers) -> str:
    """These headers as ``to_json`` spells them."""
    spelled = [
        {"key": name} if value is None else {"key": name, "value": b2a_base64(value, newline=False).decode()}
        for name, value in headers
    ]
    return orjson.dumps(spelled).decode()
