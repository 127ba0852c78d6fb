"""A real job, and what Prometheus makes of it: no alert while all goes well, and data for every query of the dashboard
when all that can happen has happened.
"""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from pyspark.sql import SparkSession

from checkback import CallableListener, CheckEndpoint, CheckRequest, LocalTransactionState, Message, TransactionProducer
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, StartAt
from checkback.consumer.metrics import collector_of
from checkback.local.kafka import free_port
from streaming import TransactionJob
from tests.deploy.conftest import quick, scraping
from tests.deploy.prometheus import DEPLOY, Prometheus, running_prometheus
from tests.deploy.test_grafana import QUERIES, filled_in, has_data
from tests.place import Place, wait_until

JOB = "a real one"
FACTOR = 30
"""Minutes of the alerts are two seconds here."""
SHOWN_ELSEWHERE = re.compile("checkback_((check_(lanes|rollbacks_of_delivered|copies)|refused)_total|executors)")
"""No producer delivers itself here, no policy refuses anything, and there is no cluster: see tests/deploy/causes.py."""
ORDERS = 30
LEFT_ALONE = 110
"""More than the check service answers for a group of which nobody can be asked: the others wait in Kafka."""


def outcome(message: Message | CheckRequest) -> LocalTransactionState:
    """What the shop's database says: every third order was rolled back, one nobody knows of."""
    number = int(message.value or b"0")
    if number == ORDERS:
        return LocalTransactionState.UNKNOWN
    return LocalTransactionState.COMMIT if number % 3 else LocalTransactionState.ROLLBACK


@pytest.fixture
def watched(place: Place, spark: SparkSession, tmp_path: Path) -> Iterator[tuple[TransactionJob, Prometheus]]:
    port, consumers_port = free_port(), free_port()
    alerts = quick((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"), FACTOR)
    settings = place.settings(
        http={"port": port},
        transactions={"timeout": "1s", "check_interval": "1s", "check_max": 2, "timer_slack": "100ms"},
        sinks={
            "rules": [{"topic": f"{place.topics.prefix}*", "to": ["kafka", "lake"]}],
            "tables": {"lake": {"kind": "parquet", "path": str(tmp_path / "lake")}},
        },
    )
    job_at = f'{{targets: ["127.0.0.1:{port}"], labels: {{job: "{JOB}", role: job}}}}'
    consumer_at = f'{{targets: ["127.0.0.1:{consumers_port}"], labels: {{job: "{JOB}", role: consumer}}}}'
    with (
        TransactionJob(settings, spark=spark) as job,
        reading(place, consumers_port),
        running_prometheus(scraping(f"{job_at}, {consumer_at}"), alerts=alerts) as prometheus,
    ):
        yield job, prometheus


@contextmanager
def reading(place: Place, port: int) -> Iterator[None]:
    """A consumer of the orders, with its metrics at this port."""
    chosen = ConsumerSettings(start_at=StartAt.FIRST, hear_resets=False)
    consumer = PushConsumer(
        *(place.bootstrap_servers, f"{place.topics.prefix}points", lambda _: ConsumeResult.SUCCESS, place.real_topic),
        settings=chosen,
        topics=place.topics,
    )
    registry = CollectorRegistry()
    with consumer:
        registry.register(collector_of(consumer))
        server, thread = start_http_server(port, "127.0.0.1", registry)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def test_a_real_run_is_shown_whole(place: Place, watched: tuple[TransactionJob, Prometheus]) -> None:
    job, prometheus = watched

    def shows(expression: str) -> None:
        def looked() -> bool:
            found = has_data(prometheus, expression)
            if not found:
                job.wait(0.5)  # raises what ended the job
            return found

        wait_until(looked, expression)

    listener = CallableListener(lambda _message, _argument: LocalTransactionState.UNKNOWN, outcome)
    with (
        TransactionProducer(place.bootstrap_servers, "shop", listener, topics=place.topics) as producer,
        CheckEndpoint(place.bootstrap_servers, "shop", listener, topics=place.topics),
    ):
        for number in range(ORDERS):
            trade(producer, Message(place.real_topic, str(number).encode()), crashes=number % 2 == 0)
        shows(f'sum (checkback_events_total{{event=~"committed|rolled_back"}}) == {ORDERS}')
        shows("sum (checkback_open_transactions) == 0")
        shows(f"sum (checkback_consumer_done_messages_total) == {sum(number % 3 > 0 for number in range(ORDERS))}")
        assert prometheus.alerts() == [], "all goes well"
        make_a_mess(place, producer)
        for alert in ("CheckbackRecordsRejected", "CheckbackMessagesHeld", "CheckbackGroupGone"):
            shows(f'max_over_time(ALERTS{{alertname="{alert}", alertstate="firing"}}[5m])')
        for expression in QUERIES.values():
            if not SHOWN_ELSEWHERE.search(expression):
                shows(filled_in(expression, JOB))


def trade(producer: TransactionProducer, order: Message, *, crashes: bool) -> None:
    prepared = producer.prepare(order)
    if crashes:  # a check finds out
        return
    if outcome(order) is LocalTransactionState.COMMIT:
        producer.commit(prepared)
    else:
        producer.rollback(prepared)


def make_a_mess(place: Place, producer: TransactionProducer) -> None:
    """A message nobody knows of, one without its topic, one that breaks the protocol, and a group that is gone."""
    producer.prepare(Message(place.real_topic, str(ORDERS).encode()))
    producer.commit(producer.prepare(Message(f"{place.topics.prefix}nowhere", b"1")))
    with closing(place.producer()) as stranger:
        stranger.send(place.topics.half, b"no half message")
    with TransactionProducer(place.bootstrap_servers, "bank", topics=place.topics) as gone:
        for _ in range(LEFT_ALONE):
            gone.prepare(Message(place.real_topic, b"1"))
