"""See :mod:`checkback.django.commands`."""

from checkback.django.commands import PruneCommand as Command

__all__ = ["Command"]
