"""An application, for mypy --strict and a fresh environment: ``application.py BOOTSTRAP_SERVERS PREFIX TOPIC``."""

import sys

from checkback import (
    CallableListener,
    CheckEndpoint,
    CheckRequest,
    HalfMessage,
    LocalTransactionState,
    Message,
    Topics,
    TransactionProducer,
    check_app,
)


def sell(message: HalfMessage, arg: object) -> LocalTransactionState:
    return LocalTransactionState.COMMIT if message.value == arg else LocalTransactionState.ROLLBACK


def check(request: CheckRequest) -> LocalTransactionState:
    return LocalTransactionState.UNKNOWN


def main(bootstrap_servers: str, prefix: str, topic: str) -> None:
    topics = Topics(prefix)
    shop = CallableListener(sell, check)
    app = check_app(shop, "shop")
    assert callable(app)
    with (
        CheckEndpoint(bootstrap_servers, "shop", shop, topics=topics),
        TransactionProducer(bootstrap_servers, "shop", shop, topics=topics) as producer,
    ):
        result = producer.send_in_transaction(Message(topic, b"one", b"customer-7"), arg=b"one")
    print(result.transaction_id)  # noqa: T201  (the test reads it)


if __name__ == "__main__":
    main(*sys.argv[1:])
