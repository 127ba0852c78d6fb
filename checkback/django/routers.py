"""For DATABASE_ROUTERS: keeps the two tables in the databases that ``CHECKBACK['DATABASES']`` names."""

from typing import Any

from checkback.django.configuration import configuration


class CheckbackRouter:
    """``DATABASE_ROUTERS = ["checkback.django.routers.CheckbackRouter", ...]``: first, so that no other one decides."""

    def allow_migrate(self, database: str, app_label: str, **_: Any) -> bool | None:
        """Whether ``migrate`` may make the tables there; None, so that others decide, for other apps."""
        return database in configuration().databases if app_label == "checkback" else None
