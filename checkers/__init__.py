"""The check service: takes check requests, asks a live endpoint of the producer group, answers with an op."""

from checkers.announced import Announced
from checkers.ask import Asker, EndpointAnswer, EndpointVerdict
from checkers.behind import Backlog, Reading, Route
from checkers.breakers import Breaker, EndpointBreakers
from checkers.check import Check, CheckEnds
from checkers.clients import KafkaClients
from checkers.directory import Endpoint, EndpointDirectory
from checkers.groups import Groups
from checkers.http.admission import AdmittedResolver, AllowList
from checkers.http.names import Names
from checkers.http.session import open_session, tls_context
from checkers.http.shares import GroupShares, Shares
from checkers.service import CheckService

__all__ = [
    "AdmittedResolver",
    "AllowList",
    "Announced",
    "Asker",
    "Backlog",
    "Breaker",
    "Check",
    "CheckEnds",
    "CheckService",
    "Endpoint",
    "EndpointAnswer",
    "EndpointBreakers",
    "EndpointDirectory",
    "EndpointVerdict",
    "GroupShares",
    "Groups",
    "KafkaClients",
    "Names",
    "Reading",
    "Route",
    "Shares",
    "open_session",
    "tls_context",
]
