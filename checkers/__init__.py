"""The check service: takes check requests, asks a live endpoint of the producer group, answers with an op."""

from checkers.ask import Asker, Verdict
from checkers.directory import EndpointDirectory
from checkers.service import CheckService
from checkers.window import OffsetWindow

__all__ = ["Asker", "CheckService", "EndpointDirectory", "OffsetWindow", "Verdict"]
