"""Checkback's own headers of a record, as every program reads them: anybody may have written the record."""

from collections.abc import Iterable

from checkback.wire.protocol import RESERVED_PREFIX


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """Checkback's own headers of a record that anybody may have written, by name.

    Returns:
        Without those whose value is null, which count as absent; empty if :func:`wrong_with_own` rejects the record.
    """
    own = [one for one in headers if one[0].startswith(RESERVED_PREFIX)]
    return {} if wrong_with_own(own) else {name: value for name, value in own if value is not None}


def wrong_with_own(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Why Checkback's own headers of a record have no meaning; empty if they have one. Names are case-sensitive."""
    names = [name for name, _ in headers if name.startswith(RESERVED_PREFIX)]
    return "" if len(names) == len(set(names)) else "a cb- header is there more than once"
