"""A gateway's metrics, for Prometheus. ``docs/metrics.md`` lists them."""

import functools
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class GatewayMetrics:
    """``clients`` and ``groups`` are asked when Prometheus asks."""

    def __init__(self, registry: CollectorRegistry, clients: Callable[[], int], groups: Callable[[], int]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # it has no types; created series would double all others
        self._calls = Counter(
            "checkback_gateway_calls",
            "Calls that a gateway answered, by protocol, call and code: RocketMQ's, 20000 being OK, or HTTP's",
            ["protocol", "call", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "checkback_gateway_call_seconds",
            "Time that a gateway took for a call, by protocol and call",
            ["protocol", "call"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._asked = Counter(
            "checkback_gateway_checks",
            "Checks that came to a gateway, by what a client said; nobody: none of the group was there, or none saw "
            "it; overruled: it was not asked, since its message is there twice, and the other one was committed",
            ["state"],
            registry=registry,
        )
        connected = Gauge("checkback_gateway_clients", "Clients that a gateway can ask", registry=registry)
        connected.set_function(lambda: float(clients()))
        known = Gauge(
            "checkback_gateway_groups", "Producer groups of which a gateway can ask somebody", registry=registry
        )
        known.set_function(lambda: float(groups()))
        self._of = functools.cache(self._found)  # to find them takes longer than to count

    def called(self, protocol: str, call: str, code: int, seconds: float) -> None:
        """A call was answered."""
        count, times = self._of(protocol, call, code)
        count.inc()
        times.observe(seconds)

    def _found(self, protocol: str, call: str, code: int) -> tuple[Counter, Histogram]:
        return self._calls.labels(protocol, call, str(code)), self._seconds.labels(protocol, call)

    def asked(self, state: str) -> None:
        """A check was answered, or not."""
        self._asked.labels(state).inc()
