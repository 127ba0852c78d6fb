"""Settings that numbers of the job are held against, as metrics: so that alerts follow them."""

from prometheus_client import CollectorRegistry, Gauge

from conf import Settings


def tell_limits(registry: CollectorRegistry, settings: Settings) -> None:
    """Register them; they hold as long as the job runs."""
    quotas, job = settings.quotas, settings.job
    for name, said, value in (
        ("quota_open_transactions", "Undecided transactions that a producer group may have", quotas.open),
        ("quota_open_bytes", "Bytes of undecided half messages that a producer group may have", quotas.open_bytes),
        ("quota_delayed_messages", "Messages waiting for their time that a producer group may have", quotas.delayed),
        ("quota_parked_messages", "Messages waiting for an operator that a producer group may have", quotas.parked),
        ("age_limit_seconds", "Age at which an undecided transaction is parked", settings.transactions.age_limit / 1e3),
        ("driver_memory_bytes", "Memory of the driver; above a quarter of it, state is slow", job.driver_memory_bytes),
    ):
        Gauge(f"checkback_{name}", said, registry=registry).set(value)
