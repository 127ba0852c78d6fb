"""Does what it reads, a line at a time: see ``tests/gateway/clients/driven.py``."""

import os
import sys
import time
from typing import Any

from rocketmq import ClientConfiguration, Credentials, Message, Producer, TransactionChecker, TransactionResolution

ANSWERS = {"commit": TransactionResolution.COMMIT, "rollback": TransactionResolution.ROLLBACK, "unknown": 0}


def say(line: str) -> None:
    print(line.replace("\n", " "), flush=True)


class Driven(TransactionChecker):
    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        self.answer = "commit"
        self.transaction: Any = None
        key, secret = os.environ.get("ACCESS_KEY"), os.environ.get("ACCESS_SECRET")
        credentials = Credentials(key, secret) if key else Credentials()
        configuration = ClientConfiguration(address, credentials, os.environ.get("NAMESPACE", ""))
        self.producer = Producer(configuration, (topic,), checker=self, tls_enable=os.environ.get("TLS") == "yes")

    def check(self, message: Any) -> Any:
        text = message.body.rstrip(b"\0").decode()
        keys, customer = ",".join(message.keys), message.properties.get("customer")
        say(f"CHECK {text} {len(message.body)} {message.tag} {keys} {customer}")
        return ANSWERS[self.answer]

    def do(self, words: list[str]) -> str:
        match words:
            case ["topic", topic]:
                self.topic = topic
            case ["answer", answer]:
                self.answer = answer
            case ["commit"]:
                self.transaction.commit()
            case ["rollback"]:
                self.transaction.rollback()
            case ["crash"]:
                os._exit(9)
            case ["send", kind, text, size]:
                return f"OK {self.send(kind, text, int(size)).message_id}"
        return "OK"

    def send(self, kind: str, text: str, size: int) -> Any:
        message = Message()
        message.topic, message.tag, message.keys = self.topic, "paid", "k1"
        message.body = text.encode().ljust(size, b"\0")
        message.add_property("customer", "7")
        if kind == "half":
            self.transaction = self.producer.begin_transaction()
            return self.producer.send(message, self.transaction)
        if kind == "fifo":
            message.message_group = "g1"
        elif kind == "delay":
            message.delivery_timestamp = int(time.time()) + 2
        return self.producer.send(message)


def main() -> None:
    try:
        driven = Driven(*sys.argv[1:])
        driven.producer.startup()
    except Exception as error:
        say(f"FAILED {getattr(error, 'code', '')} {error}")
        os._exit(1)
    say("READY")
    for line in sys.stdin:
        try:
            said = driven.do(line.split())
        except Exception as error:
            said = f"FAILED {getattr(error, 'code', '')} {error}"
        say(said)
    driven.producer.shutdown()


if __name__ == "__main__":
    main()
