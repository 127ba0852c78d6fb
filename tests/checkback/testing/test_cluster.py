"""A whole system for an application's tests: Kafka, the job, and a listener that is asked."""

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkback.testing
from checkback import CallableListener, CheckEndpoint, CheckRequest, LocalTransactionState, Message, TransactionProducer
from checkback.testing import JobProcess, LocalCluster, RecordingTransport, check_request
from conf import TransactionSettings

pytest_plugins = ["checkback.testing.pytest_plugin"]

COMMIT = LocalTransactionState.COMMIT
TESTING = Path(__file__).parents[3] / "docs" / "testing.md"


@pytest.fixture(scope="session")
def checkback_topics() -> tuple[str, ...]:
    return ("paid",)


class RunningCluster:
    """The one there is, in the place of another one."""

    def __init__(self, cluster: LocalCluster, job: JobProcess) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self.wait_for = cluster.wait_for
        self._job = job
        cluster.create_topic("orders")

    def running_job(self, settings: dict[str, str]) -> AbstractContextManager[JobProcess]:
        assert settings == {"TRANSACTIONS__TIMEOUT": "2s"}
        return nullcontext(self._job)


def test_the_example_of_the_docs_runs(
    checkback_cluster: LocalCluster, checkback_job: JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningCluster(checkback_cluster, checkback_job)
    monkeypatch.setattr(checkback.testing, "LocalCluster", lambda topics: nullcontext(running))  # noqa: ARG005  (its own)
    example = re.findall(r"```python\n(.*?)```", TESTING.read_text(encoding="utf-8"), re.DOTALL)[2]
    exec(compile(example, str(TESTING), "exec"), {})  # noqa: S102  (that is the test)


def test_a_message_is_delivered_and_another_is_checked(
    checkback_cluster: LocalCluster, checkback_job: JobProcess, checkback_transport: RecordingTransport
) -> None:
    asked: list[CheckRequest] = []

    def check(request: CheckRequest) -> LocalTransactionState:
        asked.append(request)
        return COMMIT

    listener = CallableListener(lambda _message, _arg: COMMIT, check)
    message = Message("paid", b"left open", key=b"key", headers=[("h", b"1")])
    with TransactionProducer("nowhere:1", "shop", transport=checkback_transport) as producer:
        producer.prepare(message)
    servers = checkback_cluster.bootstrap_servers
    with CheckEndpoint(servers, "shop", listener), TransactionProducer(servers, "shop", listener) as producer:
        producer.send_in_transaction(Message("paid", b"at once"))
        prepared = producer.prepare(message)
        found = checkback_cluster.wait_for("paid", 2)
    assert checkback_job.exit_status is None
    assert {record.value for record in found} == {b"at once", b"left open"}
    (request,) = asked
    expected = check_request(checkback_transport.transactions[0])
    known: dict[str, Any] = {
        "transaction_id": prepared.transaction_id,
        "half": prepared.half,
        "ingested_ms": request.ingested_ms,
        "ask_limit_ms": TransactionSettings().ask_limit_ms,
    }
    assert request == replace(expected, **known)
