"""What all pages are made from."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.requests import Request

from checkback.exceptions import CheckbackError
from conf import Settings
from status_page.facts import JobFacts, JobView
from status_page.http.signing_in import Session, SigningIn
from status_page.overview import while_nobody_can_be_heard, with_lists
from status_page.pages.forms import FormError
from status_page.transactions.deciding import Deciding
from status_page.transactions.index import Index
from status_page.transactions.lookup import Transactions
from status_page.transactions.reading import ListStanding
from status_page.transactions.receipts import Receipt
from status_page.transactions.transaction_story import Story

_AWAY_SECONDS = 15.0
"""Shorter than endpoints may be silent (``checks.endpoint_ttl``), and longer than a broker takes to start again."""


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
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)

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

    def receipt(self, name: str) -> Receipt:
        """What an operator has decided.

        Raises:
            FormError: there is no such receipt, or it cannot be read now.
        """
        try:
            found = self.deciding.receipt(name)
        except CheckbackError as error:
            raise FormError(503, str(error)) from error
        if found is None:
            raise FormError(404, "There is no such decision. 'checkback audit' lists all.")
        return found

    def outcome(self, receipt: Receipt) -> tuple[set[str], Mapping[str, str]]:
        """As :meth:`Deciding.outcome`; nothing is known of any op while the lists are not complete."""
        return self.deciding.outcome(receipt, self.view.facts().batch if self.standing.complete else None)

    @property
    def cookie(self) -> str:
        """Of a session. Cookies do not heed ports: two jobs of one machine must not share a name."""
        return f"checkback-{self.settings.http.port}"

    def session(self, request: Request) -> Session | None:
        """Whose browser has signed in."""
        return self.signing_in.session(request.cookies.get(self.cookie, ""))
