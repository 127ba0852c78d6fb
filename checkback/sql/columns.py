"""Types of columns whose values are told apart exactly, on whatever database. Needs the extra ``sql``."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, String, TypeDecorator
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

_MYSQL = ("mysql", "mariadb")


class ExactText(TypeDecorator[str]):
    """Text of which each byte counts: to MySQL's collations ``A`` is ``a``, and to most of them ``a`` with a blank.

    The length is checked here, since a server without strict mode cuts off what is longer, which is another's id then.
    """

    impl = mysql.VARBINARY
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002  (SQLAlchemy's)
        """As UTF-8, whatever the connection speaks."""
        encoded = None if value is None else value.encode()
        if encoded is not None and len(encoded) > self.length:
            raise ValueError(f"{value!r:.80} has {len(encoded)} bytes; the column takes {self.length}.")
        return encoded

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002  (SQLAlchemy's)
        """Back to text."""
        return value.decode() if isinstance(value, bytes | bytearray) else value


class Moment(TypeDecorator[datetime]):
    """A time in UTC with microseconds: MySQL's ``DATETIME`` has no zone, and rounds to seconds where it is not told."""

    impl = mysql.DATETIME
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(fsp=6)

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002  (SQLAlchemy's)
    ) -> datetime | None:
        """Without its zone: MySQL would turn one that it is told into the session's."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002  (SQLAlchemy's)
    ) -> datetime | None:
        """With its zone."""
        return None if value is None else value.replace(tzinfo=UTC)


def exact_text(max_bytes: int) -> TypeEngine[str]:
    """For a key."""
    return String(max_bytes).with_variant(ExactText(max_bytes), *_MYSQL)


def moment() -> TypeEngine[datetime]:
    """For an age."""
    return DateTime(timezone=True).with_variant(Moment(), *_MYSQL)
