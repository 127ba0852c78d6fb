"""The check service's metrics, for Prometheus. ``docs/metrics.md`` lists them; it is made from here."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, make_asgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from checkback.answering.listening import OwnNames, ServerThread, listening_socket
from checkers.facts import GroupStanding

_LOGGER = logging.getLogger(__name__)
MOST_GROUPS = 200
OTHER = "other"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STATES = ("well", "skipped", "tried")
_RESULTS = ("commit", "rollback", "unknown", "unreachable")


def serve(registry: CollectorRegistry, host: str, port: int, names: Iterable[str] = ()) -> Callable[[], None]:
    """Serve ``/metrics`` of a check service that runs alone; 0: do not. A port that cannot be had is only said.

    ``names``: see :class:`~checkback.answering.listening.OwnNames`.

    Returns:
        What gives the port back.
    """
    if not port:
        return lambda: None
    try:
        listening = listening_socket(host, port)
    except OSError as error:
        _LOGGER.warning(
            "Port %d (checks.http_port) cannot be had: %s. The check service runs without metrics.",
            port,
            error.strerror,
        )
        return lambda: None

    own, app = OwnNames(names), make_asgi_app(registry)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await (own.refused(scope) or app)(scope, receive, send)

    return ServerThread(answer, listening, "checks-metrics").stop


class CheckMetrics(Collector):
    """Bounded: 200 groups are told apart, the rest is ``other``. ``standing`` is asked when Prometheus asks."""

    def __init__(self, registry: CollectorRegistry, standing: Callable[[], Mapping[str, GroupStanding]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # it has no types; created series would double all others
        self._standing = standing
        self._known: set[str] = set()
        self._answers = Counter(
            "checkback_check_answers",
            "Answers to checks that the check service wrote, by producer group and result",
            ["group", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "checkback_check_request_seconds",
            "Time that check endpoints took to answer, or not to, by producer group",
            ["group"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._postponed = Counter(
            "checkback_checks_postponed",
            "Checks for which there was no room, or nobody to be asked: they wait in Kafka, by producer group",
            ["group"],
            registry=registry,
        )
        self._lanes = Counter(
            "checkback_check_lanes",
            "Lanes that the check service settled, by producer group and result: settled, no_ledger, failed",
            ["group", "result"],
            registry=registry,
        )
        self._contradicted = Counter(
            "checkback_check_rollbacks_of_delivered",
            "Rollbacks answered of messages that their lane has delivered: they stay committed, by producer group",
            ["group"],
            registry=registry,
        )
        self._copied = Counter(
            "checkback_check_copies",
            "Copies of signed half messages that were rolled back when they were asked about, by producer group",
            ["group"],
            registry=registry,
        )
        registry.register(self)

    def answered(self, group: str, result: str) -> None:
        """A check has a verdict."""
        label = self._label(group)
        for one in _RESULTS:
            self._answers.labels(label, one)  # all are there once the group is
        self._answers.labels(label, result).inc()

    def asked(self, group: str, seconds: float) -> None:
        """An endpoint was asked, for so long."""
        self._seconds.labels(self._label(group)).observe(seconds)

    def postponed(self, group: str) -> None:
        """A check waits in Kafka."""
        self._postponed.labels(self._label(group)).inc()

    def settled(self, group: str, result: str) -> None:
        """A lane was settled, has no ledger, or could not be settled this time."""
        self._lanes.labels(self._label(group), result).inc()

    def contradicted(self, group: str) -> None:
        """A rollback was answered of what has been delivered."""
        self._contradicted.labels(self._label(group)).inc()

    def copied(self, group: str) -> None:
        """Somebody has written a signed half message a second time."""
        self._copied.labels(self._label(group)).inc()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names alone: nobody is asked when the collector is registered."""
        return iter(_families())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """As prometheus-client asks for."""
        waiting, under_way, endpoints = _families()
        summed: dict[str, dict[str, int]] = {}
        for group, one in self._standing().items():
            numbers = summed.setdefault(self._label(group), dict.fromkeys(("waiting", "under_way", *_STATES), 0))
            numbers["waiting"] += one.waiting
            numbers["under_way"] += one.under_way
            for endpoint in one.endpoints:
                numbers[endpoint.state] += 1
        for group, numbers in summed.items():
            waiting.add_metric([group], numbers["waiting"])
            under_way.add_metric([group], numbers["under_way"])
            for state in _STATES:
                endpoints.add_metric([group, state], numbers[state])
        yield from (waiting, under_way, endpoints)

    def _label(self, group: str) -> str:
        if group not in self._known:
            if len(self._known) >= MOST_GROUPS:
                return OTHER
            self._known.add(group)
        return group


def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily(
            "checkback_checks_waiting", "Checks that wait or are under way, by producer group", labels=["group"]
        ),
        GaugeMetricFamily(
            "checkback_check_requests_in_flight",
            "Requests to check endpoints under way, by producer group",
            labels=["group"],
        ),
        GaugeMetricFamily(
            "checkback_check_endpoints",
            "Known check endpoints, 20 at most, by producer group and state: well, skipped, tried (failed lately)",
            labels=["group", "state"],
        ),
    )
