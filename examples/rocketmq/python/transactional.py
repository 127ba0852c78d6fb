"""A transactional message through a gateway, with RocketMQ's own client.

python transactional.py ADDRESS TOPIC commit|rollback|crash|listen
"""

import os
import signal
import sys

from rocketmq import (
    ClientConfiguration,
    Credentials,
    Message,
    Producer,
    TransactionChecker,
    TransactionResolution,
)


class Checker(TransactionChecker):
    """Looks at what the local transaction left in the database."""

    def check(self, message: Message) -> TransactionResolution:
        """Asked until it knows."""
        print(f"asked about {message.message_id}: {message.body.decode()}", flush=True)
        return TransactionResolution.COMMIT


def main(address: str, topic: str, mode: str) -> None:
    """Send one message, or answer checks until a signal comes."""
    key, secret = os.environ.get("ACCESS_KEY"), os.environ.get("ACCESS_SECRET")
    configuration = ClientConfiguration(address, Credentials(key, secret) if key else Credentials())
    producer = Producer(configuration, (topic,), checker=Checker(), tls_enable=os.environ.get("TLS") == "yes")
    producer.startup()
    try:
        if mode == "listen":  # answer checks, also about transactions of other processes
            print("listening", flush=True)
            signal.pause()
        message = Message()
        message.topic, message.tag, message.keys = topic, "paid", "order-1"
        message.body = b"order 1 from Python"
        message.add_property("customer", "7")
        transaction = producer.begin_transaction()
        print("half message", producer.send(message, transaction).message_id, flush=True)
        # here belongs the local transaction: what the message tells of
        if mode == "crash":
            os._exit(1)
        elif mode == "commit":
            transaction.commit()
        else:
            transaction.rollback()
        print(mode, flush=True)
    finally:
        producer.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
