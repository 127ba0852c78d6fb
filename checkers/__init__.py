"""The check service: takes check requests, asks a live endpoint of the producer group, answers with an op."""

from checkers.admission import AdmittedResolver, AllowList
from checkers.ask import Asked, Asker, Verdict
from checkers.breaker import Breaker
from checkers.directory import Endpoint, EndpointDirectory
from checkers.groups import Check, Groups
from checkers.service import CheckService
from checkers.session import open_session, tls_context
from checkers.window import OffsetWindow

__all__ = [
    "AdmittedResolver",
    "AllowList",
    "Asked",
    "Asker",
    "Breaker",
    "Check",
    "CheckService",
    "Endpoint",
    "EndpointDirectory",
    "Groups",
    "OffsetWindow",
    "Verdict",
    "open_session",
    "tls_context",
]
