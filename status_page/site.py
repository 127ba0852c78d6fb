"""What all pages are made from."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry
from starlette.requests import Request

from checkback.operations.lanes import KafkaLanes, Look
from checkback.operations.operator_ops import OperatorOps
from conf import Settings
from conf.secrets_file import own_key
from status_page.facts import JobFacts, JobView
from status_page.http.signing_in import Session, SigningIn
from status_page.overview import while_nobody_can_be_heard, with_lists
from status_page.transactions.deciding import Deciding, Ops
from status_page.transactions.index import Index
from status_page.transactions.lookup import Transactions
from status_page.transactions.standing import ListStanding
from status_page.transactions.story import Story

_AWAY_SECONDS = 15.0
"""Shorter than endpoints may be silent (``checks.endpoint_ttl``), and longer than a broker takes to start again."""


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Site:
    """The job as it is asked, the lists, who may act, and how."""

    settings: Settings
    view: JobView
    transactions: Transactions
    registry: CollectorRegistry
    deciding: Deciding
    signing_in: SigningIn
    story: Story | None = None
    now_ms: Callable[[], int] = field(default=_now_ms)

    @property
    def index(self) -> Index:
        """The lists."""
        return self.transactions.index

    @property
    def standing(self) -> ListStanding:
        """How far they can be relied on."""
        return self.transactions.standing()

    def facts(self) -> JobFacts:
        """How the job stands now, with its lists, as far as can be known while Kafka does not answer."""
        found, standing = self.view.facts(), self.standing
        if (standing.away_seconds or 0.0) >= _AWAY_SECONDS:
            found = while_nobody_can_be_heard(found)
        return with_lists(found, self.index) if standing.complete else found

    @property
    def cookie(self) -> str:
        """Of a session. Cookies do not heed ports: two jobs of one machine must not share a name."""
        return f"checkback-{self.settings.http.port}"

    def session(self, request: Request) -> Session | None:
        """Whose browser has signed in."""
        return self.signing_in.session(request.cookies.get(self.cookie, ""))


def operator_ops(settings: Settings) -> Callable[[], Ops]:
    """What opens a writer of ops."""
    kafka, signing = settings.kafka, own_key(settings.access)
    return partial(OperatorOps, kafka.bootstrap_servers, kafka.topics, kafka.python_client, signing)


def lanes_in_kafka(settings: Settings) -> Look:
    """What finds out what lanes have done, before an operator decides about their messages."""
    kafka = settings.kafka
    return KafkaLanes(kafka.bootstrap_servers, kafka.topics, kafka.python_client, kafka.sink_client)
