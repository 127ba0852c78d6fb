"""Serves the status page, its API and ``/metrics``, beside the job: nothing that goes wrong here stops that."""

import logging
import math
import time

from checkback.exceptions import CheckbackError
from conf import Settings
from status_page.app import status_app
from status_page.http.server import StatusServer
from status_page.transactions.lookup import Transactions
from status_page.transactions.transaction_story import KafkaStories
from streaming.observing.observation import Observation

_LOGGER = logging.getLogger(__name__)
_AGAIN_SECONDS = 5.0


class Serving:
    """Started with the job, and again until the port can be had."""

    def __init__(self, settings: Settings, observation: Observation) -> None:
        self._port = settings.http.port
        self._transactions = Transactions(settings)
        registry = observation.metrics.registry
        app = status_app(settings, observation, self._transactions, registry, KafkaStories(settings))
        self._server = StatusServer(settings.http, app)
        self._served = False
        self._said = ""
        self._next = 0.0

    @property
    def url(self) -> str:
        """Where it is, or will be; empty: nowhere."""
        return self._server.url if self._port else ""

    def start(self, *, early: bool = False) -> None:
        """Serve, from now on or already; try again later when the port cannot be had, which is said.

        ``early``: the job is starting, and what has the port may be the run that it takes over: nothing is said.
        """
        now = time.monotonic()
        if self._served or not self._port or now < self._next:
            return
        self._next = now + _AGAIN_SECONDS
        try:
            self._served = self._server.start()
            why = "in use by another program, or by the job that is being taken over"
        except CheckbackError as error:
            why = str(error)
        if self._served:
            self._transactions.start()
            _LOGGER.info("Status page and metrics: %s", self.url)
        elif early:
            self._next = 0.0
        elif why != self._said:
            self._said = why
            _LOGGER.warning(
                "Port %d (http.port) cannot be had: %s. The job runs without status page and metrics, and tries again.",
                *(self._port, why.rstrip(".")),
            )

    def stop(self) -> None:
        """Give the port back. Harmless when nothing is served."""
        self._served = False
        self._next = math.inf
        self._server.stop()
        self._transactions.stop()
