"""The check service: takes check requests, asks a live endpoint of the producer group, answers with an op."""

from checkers.announced import Announced
from checkers.service import CheckService

__all__ = ["Announced", "CheckService"]
