"""Each role does its whole work with exactly its rights, on a Kafka with its authorizer on, and is refused nothing."""

import threading

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from access import Role, Whom
from checkback import CheckEndpoint, LocalTransactionState, Message, TransactionOptions, TransactionProducer
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt
from checkback.kafka.connecting import TransportName
from checkback_cli import app
from checkers import CheckService
from streaming import TransactionJob
from tests.access.guarded import ORDERS, Guarded, guarded, settings_file
from tests.place import wait_until

__all__ = ["guarded"]
USERS = ("shop", "points", "checker", "job", "operator", "reader")
_HARMLESS = [
    # librdkafka looks for the coordinator of a consumer that stores nothing
    ("DESCRIBE", "Group:LITERAL:checkback-pull", "FindCoordinator"),
    # a story says that it could not look there: who decides need not see what is delivered
    ("DESCRIBE", f"Topic:LITERAL:{ORDERS}", "Metadata"),
]
"""Nobody needs to be told."""
_SHOWING = (("open",), ("parked", "list"), ("rejected",), ("topics", "list"), ("groups",))


class Committed:
    """Answers that each local transaction has committed."""

    def check_local_transaction(self, _: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


class Listener:
    """Fails once what says so, and always what is to be dead."""

    def __init__(self) -> None:
        self.had: list[tuple[bytes | None, int]] = []
        self._lock = threading.Lock()

    def __call__(self, message: ReceivedMessage) -> ConsumeResult:
        with self._lock:
            self.had.append((message.value, message.tries))
        fails = message.value == b"dead" or (message.value == b"again" and not message.tries)
        return ConsumeResult.LATER if fails else ConsumeResult.SUCCESS


def typed(here: Guarded, user: str, *words: str) -> str:
    said = CliRunner().invoke(app, [*words, "--config", settings_file(here, user)], catch_exceptions=False)
    assert said.exit_code == 0, (words, said.output)
    return said.output


def test_nobody_has_a_right_beside_its_role(guarded: Guarded, spark: SparkSession) -> None:
    here = guarded
    here.let_in("shop", Role.PRODUCER, Whom(group="shop", real=(ORDERS,), direct=True))
    here.let_in("points", Role.CONSUMER, Whom(group="points", real=(ORDERS,)))
    here.let_in("job", Role.JOB, Whom(real=("shop.*",)))
    for user, role in (("checker", Role.CHECKS), ("operator", Role.OPERATOR), ("reader", Role.READER)):
        here.let_in(user, role)
    times = {"timeout": "2s", "check_interval": "2s", "timer_slack": "100ms"}
    place = {"checkpoint": str(here.folder / "checkpoint"), "state_partitions": 2}
    settings = here.settings("job", job=place, transactions=times, checks={"in_job": False}, http={"port": 0})
    seen, checks = Listener(), CheckService(here.settings("checker"))
    chosen = ConsumerSettings(
        start_at=StartAt.FIRST, store_interval=0.2, retry_levels=[0.1], max_reconsume_times=1, offset_file=None
    )
    options = here.options("points", TransportName.CONFLUENT)
    points = PushConsumer(
        *(here.servers, "points", seen, [ORDERS]),
        settings=chosen,
        kafka_options=options,
    )
    shop = here.options("shop")
    with (
        TransactionJob(settings, spark=spark) as job,
        CheckEndpoint(here.servers, "shop", Committed(), kafka_options=shop),
        TransactionProducer(here.servers, "shop", kafka_options=shop, missing_topic="refuse") as producer,
        TransactionProducer(
            *(here.servers, "shop"),
            transport=TransportName.CONFLUENT,
            kafka_options=here.options("shop", TransportName.CONFLUENT),
            delivery="direct",
        ) as direct,
        points,
    ):
        checks.start()
        for value in (b"again", b"dead"):
            producer.commit(producer.prepare(Message(ORDERS, value)))
        producer.send(Message(ORDERS, b"sent"))
        direct.commit(direct.prepare(Message(ORDERS, b"direct")))
        direct.prepare(Message(ORDERS, b"settled"))
        producer.prepare(Message(ORDERS, b"checked"))
        open_one = producer.prepare(
            Message(ORDERS, b"decided"), options=TransactionOptions(check_immunity_ms=3_600_000)
        )
        job.wait(5)
        typed(here, "operator", "commit", "--half", str(open_one.half), "--yes", "--why", "they said so")

        def done() -> bool:
            job.wait(0.2)
            checks.raise_if_dead()
            wanted = {(value, 0) for value in (b"again", b"dead", b"sent", b"checked", b"decided")}
            wanted |= {(b"direct", 0), (b"settled", 0)}
            return wanted | {(b"again", 1), (b"dead", 1)} <= set(seen.had) and points.figures().all.dead == 1

        wait_until(done, "all of it")
        for words in _SHOWING:
            typed(here, "reader", *words)
    checks.stop()
    assert sorted(seen.had) == sorted({*seen.had}), "each once"
    assert [one for one in here.denials(*USERS) if one not in _HARMLESS] == []
