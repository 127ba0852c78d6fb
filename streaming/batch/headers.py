"""Headers as the query carries them: Spark's ``to_json`` of an array of names and values."""

from binascii import a2b_base64, b2a_base64

import orjson

from checkback.wire import protocol
from checkback.wire.signed_records import spelled_name, spelled_string

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


def spelled_headers(packed: str | None) -> bytes:
    """The same, as a signature has them: ``signed_records.spelled``. In two thirds of the time that both steps take."""
    if not packed:
        return b""
    parts: list[bytes] = []
    for header in orjson.loads(packed):
        parts.append(spelled_name(header["key"]))
        parts.append(spelled_string(a2b_base64(header["value"]) if "value" in header else None))
    return b"".join(parts)


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
