"""A whole system for an application's tests: Kafka, the job, and a listener that is asked."""

from dataclasses import replace

import pytest

from checkback import CallableListener, CheckEndpoint, CheckRequest, LocalTransactionState, Message, TransactionProducer
from checkback.testing import JobProcess, LocalCluster, RecordingTransport, check_request

pytest_plugins = ["checkback.testing.pytest_plugin"]

COMMIT = LocalTransactionState.COMMIT


@pytest.fixture(scope="session")
def checkback_topics() -> tuple[str, ...]:
    return ("paid",)


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
    known = {"transaction_id": prepared.transaction_id, "half": prepared.half, "ingested_ms": request.ingested_ms}
    assert request == replace(expected, **known)
