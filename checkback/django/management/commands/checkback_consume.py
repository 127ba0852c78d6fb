"""See :mod:`checkback.django.commands`."""

from checkback.django.commands import ConsumeCommand as Command

__all__ = ["Command"]
