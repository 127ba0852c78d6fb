"""The column of a key."""

from typing import Any

from django.db import models

_MYSQL = "mysql"


class ExactTextField(models.CharField):
    """Text of which each byte counts: on MySQL and MariaDB a VARBINARY, since to a collation ``A`` is ``a``."""

    def db_type(self, connection: Any) -> str | None:
        """A CharField's elsewhere."""
        if connection.vendor == _MYSQL:
            return f"varbinary({self.max_length})"
        return str(super().db_type(connection))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002  (Django's)
        """As UTF-8 there."""
        found = super().get_db_prep_value(value, connection, prepared)
        return found.encode() if connection.vendor == _MYSQL and isinstance(found, str) else found

    def from_db_value(self, value: Any, *_: Any) -> Any:
        """Back to text."""
        return value.decode() if isinstance(value, bytes) else value
