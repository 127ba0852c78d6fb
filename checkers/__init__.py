"""The check service: takes check requests, asks a live endpoint of the producer group, answers with an op."""

from checkers.admission import AdmittedResolver, AllowList
from checkers.announced import Announced
from checkers.ask import Asked, Asker, Verdict
from checkers.behind import Backlog, Reading, Route
from checkers.breaker import Breaker
from checkers.clients import KafkaClients
from checkers.directory import Endpoint, EndpointDirectory
from checkers.endpoint_breakers import EndpointBreakers
from checkers.groups import Check, Ends, Groups
from checkers.names import Names
from checkers.service import CheckService
from checkers.session import open_session, tls_context
from checkers.shares import GroupShares, Shares

__all__ = [
    "AdmittedResolver",
    "AllowList",
    "Announced",
    "Asked",
    "Asker",
    "Backlog",
    "Breaker",
    "Check",
    "CheckService",
    "Endpoint",
    "EndpointBreakers",
    "EndpointDirectory",
    "Ends",
    "GroupShares",
    "Groups",
    "KafkaClients",
    "Names",
    "Reading",
    "Route",
    "Shares",
    "Verdict",
    "open_session",
    "tls_context",
]
