"""Writes the generated parts of ``docs/metrics.md``: ``python -m docs.metrics``.

Names, types, labels and meanings come from the registries of job, check service and gateway; the alerts from
``deploy/prometheus/alerts.yml``. What to do about a number is said here, once for each metric.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.registry import Collector
from ruamel.yaml import YAML

from checkers.metrics import CheckMetrics
from conf import Settings
from gateway.metrics import GatewayMetrics
from streaming.observing.metrics import JobMetrics, tell_limits

PAGE = Path(__file__).parent / "metrics.md"
ALERTS = Path(__file__).parents[1] / "deploy" / "prometheus" / "alerts.yml"
_UNITS = (("_timestamp_seconds", "s since 1970"), ("_seconds", "s"), ("_bytes", "bytes"))

ADVICE = {
    "flow": {
        "checkback_events_total": "the flow, by its rate; [semantics.md](semantics.md#counts) says what each event is. "
        "`rejected`, `held`, `undeliverable`, `gone` and `conflict` should stand still",
        "checkback_rejected_total": "rises: `checkback rejected` shows the records, and who wrote them",
        "checkback_refused_total": "rises: somebody sends what [access-policy.md](access-policy.md) does not allow; "
        "`checkback status` says why, `checkback rejected` shows the records",
        "checkback_held_total": "rises: make the topic that is named, grow it, or let the job write to it",
        "checkback_parked_total": "rises: `checkback parked list`, then decide each",
        "checkback_decision_seconds": "long: producers end late; from `transactions.timeout` on it was a check that "
        "decided, so an application crashes, or does not end its transactions",
        "checkback_delivery_seconds": "long: batches are; see `checkback_batch_seconds`",
        "checkback_records_read_total": "its rate is the input, with the job's own retries of held messages; 0 while "
        "producers send: see the backlog",
        "checkback_records_written_total": "deliveries, checks and notes; about one a transaction, more in an outage",
        "checkback_rows_published_total": "stands still while messages flow: see `[sinks]` and the job's log",
    },
    "checks": {
        "checkback_checks_total": "`unknown` or `unreachable` rises: `checkback groups`, and the application's log",
        "checkback_checks_unanswered_seconds": "above 60 s: no check service runs, or it hangs; restart it",
        "checkback_check_attempts_given_back_total": "rises: an application is away; its checks wait for it",
        "checkback_timer_late_seconds": "long: more are due than a batch lets fire, as after an outage; it passes",
    },
    "in doubt": {
        "checkback_open_transactions": "rises and stays: transactions are not ended, and checks do not end them either",
        "checkback_oldest_open_seconds": "above some minutes: `checkback open --group G`, then `checkback show TX`",
        "checkback_open_bytes": "near its quota: see why so much is open",
        "checkback_delayed_messages": "as many as were sent for later; held ones are among them",
        "checkback_parked_messages": "above 0: `checkback parked list`, then resume, commit or roll back",
    },
    "job": {
        "checkback_job_info": "to tell which version runs",
        "checkback_start_timestamp_seconds": "changes: the job was started again",
        "checkback_running_timestamp_seconds": "none for minutes: the job is still starting; its page and log say what "
        "it does",
        "checkback_batch_end_timestamp_seconds": "`time() -` it above 2 min: the job stalls; `checkback doctor`",
        "checkback_batch": "stands still: likewise",
        "checkback_batch_seconds": "long: see which phase takes it",
        "checkback_batch_phase_seconds_total": "`evaluate_and_write` is the work; the others are Kafka's and the "
        "checkpoint's, so a slow broker or disk when they rise",
        "checkback_backlog_records": "grows: more is sent than the job takes in; see "
        "[performance.md](performance.md). One partition alone: see `checkback_partition_held_back_seconds`",
        "checkback_partition_held_back_seconds": "above 10 s: "
        "[stop-messages.md](stop-messages.md#partitions-that-are-held-back)",
        "checkback_access_policy_wrong": "1: correct the file; [access-policy.md](access-policy.md#changes)",
        "checkback_state_bytes": "near a quarter of `checkback_driver_memory_bytes`: more memory, or less open",
        "checkback_state_segments": "about one for each 4,096 half offsets with something open, or lately decided",
        "checkback_executors": "falls: a worker or an executor was lost, and the others do its work; "
        "[cluster.md](cluster.md#what-a-loss-costs)",
        "checkback_executors_most": "for `checkback_executors`; it begins again with each start",
        "checkback_partitions_skipped_total": "rises at a start after a crash, and at no other time",
    },
    "limits": {
        "checkback_quota_open_transactions": "`quotas.open`, for `checkback_open_transactions`",
        "checkback_quota_open_bytes": "`quotas.open_bytes`, for `checkback_open_bytes`",
        "checkback_quota_delayed_messages": "`quotas.delayed`, for `checkback_delayed_messages`",
        "checkback_quota_parked_messages": "`quotas.parked`, for `checkback_parked_messages`",
        "checkback_age_limit_seconds": "`transactions.age_limit`, for `checkback_oldest_open_seconds`",
        "checkback_driver_memory_bytes": "`job.driver_memory`, for `checkback_state_bytes`",
    },
    "check service": {
        "checkback_check_answers_total": "as `checkback_checks_total`, as the check service sees it, and sooner",
        "checkback_check_request_seconds": "near `checks.ask_timeout` (3 s): that application's endpoint is too slow",
        "checkback_checks_waiting": "stays high: endpoints are slower than checks come; more or faster ones",
        "checkback_check_requests_in_flight": "stays at `checks.concurrency_per_group` (32): likewise",
        "checkback_check_endpoints": "none `well`: start the application, or see why it cannot be reached; "
        "`checkback groups` has the reason",
        "checkback_checks_postponed_total": "rises: nobody could be asked, or the queue is full; they follow later",
        "checkback_check_lanes_total": "`settled` rises: producers with lanes die, or are slow; `no_ledger`: a lane's "
        "ledger has expired, operators decide; `failed`: its log says why, it is tried again",
        "checkback_check_rollbacks_of_delivered_total": "above 0: that group's check answers wrongly; correct it",
        "checkback_check_copies_total": "above 0: somebody who reads `cb.half` writes to it, too; the log names the "
        "transactions, `checkback access check` says who may",
    },
    "gateway": {
        "checkback_gateway_calls_total": "a code other than 20000 rises: [gateway.md](gateway.md#what-is-refused) says "
        "what it means; 50001 is Kafka that does not answer",
        "checkback_gateway_call_seconds": "`SendMessage` near `gateway.write_timeout` (3 s): Kafka is slow, or the "
        "gateway's core is busy; more processes",
        "checkback_gateway_checks_total": "`nobody` or `unknown` rises: clients are away, or do not answer in 2 s",
        "checkback_gateway_clients": "0 while producers run: they do not reach this gateway",
        "checkback_gateway_groups": "as above, by producer group",
    },
}


class Metric(NamedTuple):
    """As it is exposed."""

    name: str
    type: str
    labels: tuple[str, ...]
    said: str

    @property
    def unit(self) -> str:
        """By Prometheus's conventions the name ends with it."""
        plain = self.name.removesuffix("_total")
        return next((unit for suffix, unit in _UNITS if plain.endswith(suffix)), "")


def metrics() -> list[Metric]:
    """All of the job, of the check service and of the gateway, in the order in which they are exposed."""
    registry = JobMetrics("checkback").registry
    tell_limits(registry, Settings())
    CheckMetrics(registry, dict)
    GatewayMetrics(registry, int, int)
    return [one for collector in registry._collector_to_names for one in _of(collector)]  # noqa: SLF001  (the package has no other way to ask)


def written(page: str) -> str:
    """The page, with each generated part as the code says it now.

    Raises:
        ValueError: a metric has no advice, or advice has no metric; a part is missing in the page.
    """
    found = metrics()
    advised = [name for section in ADVICE.values() for name in section]
    if sorted(advised) != sorted(one.name for one in found):
        wrong = set(advised) ^ {one.name for one in found}
        raise ValueError(f"docs/metrics.py must say of each metric, once, what to do about it: {sorted(wrong)}")
    parts: dict[str, Callable[[], str]] = {name: lambda name=name: _table(name, found) for name in ADVICE}  # type: ignore[misc] # mypy cannot infer a lambda with a default
    for name, make in {**parts, "alerts": _alerts}.items():
        part = re.compile(rf"(<!-- {name}: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(part.findall(page)) != 1:
            raise ValueError(f"docs/metrics.md must have one part named {name!r}.")
        text = make()
        page = part.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc] # mypy cannot infer a lambda with a default
    return page


def _of(collector: Collector) -> Iterator[Metric]:
    own: Any = collector
    for one in [own] if hasattr(own, "_labelnames") else [*own.collect()]:
        name, kind = (one._name, one._type) if one is own else (one.name, one.type)  # noqa: SLF001  (as above)
        said = one._documentation if one is own else one.documentation  # noqa: SLF001  (as above)
        yield Metric(f"{name}_total" if kind == "counter" else name, kind, tuple(one._labelnames), said)  # noqa: SLF001  (as above)


def _table(section: str, found: list[Metric]) -> str:
    by_name = {one.name: one for one in found}
    rows = [
        f"| `{one.name}` | {one.type} | {', '.join(one.labels) or '-'} | {one.unit or '-'} | {one.said} | {advice} |"
        for name, advice in ADVICE[section].items()
        for one in [by_name[name]]
    ]
    head = "| metric | type | labels | unit | meaning | what to do when |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *rows])


def _alerts() -> str:
    groups = YAML(typ="safe").load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rows = [
        f"| `{rule['alert']}` | {rule['labels']['severity']} | {rule.get('for', 'at once')} | "
        f"{_plain(rule['annotations']['summary'])} | {_plain(rule['annotations']['description'])} |"
        for group in groups
        for rule in group["rules"]
    ]
    return "\n".join(
        ["| alert | severity | after | fires when | what to do |", "| --- | --- | --- | --- | --- |", *rows]
    )


def _plain(text: str) -> str:
    """What an alert says, with the name of what stands in each place."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), text)
    return re.sub(r"\{\{ \$value[^}]*\}\}B?", "N", text).replace("|", "\\|").strip()


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
