"""The whole job, and a producer group that has no check endpoint until later."""

import time

from pyspark.sql import SparkSession

from checkback import CheckEndpoint, CheckRequest, LocalTransactionState, Message, TransactionProducer
from tests.end_to_end.job import running
from tests.place import Place, wait_until

UNKNOWN, COMMIT = LocalTransactionState.UNKNOWN, LocalTransactionState.COMMIT
FEW = 7


class Forgetful:
    """Leaves its transactions undecided, and knows of each when it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_local_transaction(self, message: object, arg: object) -> LocalTransactionState:
        return UNKNOWN

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request.transaction_id)
        return COMMIT


def test_what_waits_for_an_endpoint_is_asked_as_soon_as_there_is_one(place: Place, spark: SparkSession) -> None:
    """Well before the job's next check, which is due after ``check_interval``."""
    listener = Forgetful()
    with running(place, spark, transactions={"timeout": "500ms", "check_interval": "60s"}) as counts:
        with TransactionProducer(place.bootstrap_servers, "shop", listener, topics=place.topics) as producer:
            for number in range(FEW):
                producer.send_in_transaction(Message(place.real_topic, b"%d" % number))
        wait_until(lambda: counts["check_unreachable"] == FEW, "an answer to each check")
        time.sleep(1)
        began = time.monotonic()
        with CheckEndpoint(place.bootstrap_servers, "shop", listener, topics=place.topics):
            wait_until(lambda: counts["committed"] == FEW, "a decision of each")
        took = time.monotonic() - began
    assert took < 30, f"it waited for the next check: {took:.1f} s"
    assert len(listener.asked) == len(set(listener.asked)) == FEW, "each is asked once"
