"""The app, for INSTALLED_APPS."""

from importlib import import_module

from django.apps import AppConfig


class CheckbackConfig(AppConfig):
    """``"checkback.django"``: the two tables, the system checks, the commands."""

    name = "checkback.django"
    label = "checkback"
    verbose_name = "Checkback"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        import_module("checkback.django.checks")
