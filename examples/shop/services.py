"""Logistics, points and cart: each reads its topic, as any service on Kafka does."""

import threading

from kafka import KafkaConsumer

SERVICES = ("logistics", "points", "cart")


class Service(threading.Thread):
    """A consumer of one topic; ``got`` is what it received, in order."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.got: list[bytes] = []
        self._closing = threading.Event()
        self._consumer = KafkaConsumer(
            name,
            bootstrap_servers=bootstrap_servers,
            group_id=name,
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # the one setting that matters: what is not committed is not seen
        )

    def run(self) -> None:
        """Receive until closed, and to the end of the topic."""
        while not (self._closing.is_set() and self._has_all()):
            for records in self._consumer.poll(timeout_ms=200).values():
                self.got += [record.value for record in records]
        self._consumer.close()

    def close(self) -> list[bytes]:
        """Everything that was in the topic."""
        self._closing.set()
        self.join()
        return self.got

    def _has_all(self) -> bool:
        places = self._consumer.assignment()
        ends = self._consumer.end_offsets(places)
        return bool(places) and all(self._consumer.position(place) >= ends[place] for place in places)
