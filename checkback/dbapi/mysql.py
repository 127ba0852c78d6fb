"""How long MySQL and MariaDB wait for locks, of rows and of tables."""

from collections.abc import Sequence

_NAMES = ("innodb_lock_wait_timeout", "lock_wait_timeout")

LOCK_TIMEOUTS = f"SELECT {', '.join(f'@@SESSION.{name}' for name in _NAMES)}"
"""Asks for those of this connection, in seconds."""


def limited_to(milliseconds: int) -> list[int]:
    """Time-outs in whole seconds, as the server counts, and not less than asked for."""
    return [-(-milliseconds // 1_000)] * len(_NAMES)


def set_lock_timeouts(seconds: Sequence[int]) -> str:
    """The statement that sets what :data:`LOCK_TIMEOUTS` asks for."""
    pairs = zip(_NAMES, seconds, strict=True)
    return "SET " + ", ".join(f"SESSION {name} = {value:d}" for name, value in pairs)
