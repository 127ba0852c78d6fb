"""The oracle's consumer, on a real Kafka: every message once, also when its client has to be replaced."""

from typing import Any

import pytest

from checkback.wire.protocol import ID
from tests.place import Place, wait_until
from torture import consumer
from torture.consumer import Consuming


def test_a_consumer_that_falls_silent_is_replaced_and_goes_on_where_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    original = consumer.Consumer  # type: ignore[attr-defined]  # confluent-kafka's, as the module has it

    def counted(settings: Any) -> object:
        made.append(settings)
        return original(settings)

    monkeypatch.setattr(consumer, "Consumer", counted)
    monkeypatch.setattr(consumer, "_SILENT_SECONDS", 1.0)
    consuming = Consuming(place.bootstrap_servers, [place.real_topic], 4)
    consuming.start()
    try:
        for several in (("a", "b", "c"), ("d", "e")):
            producer = place.producer()
            for number, name in enumerate(several):
                producer.send(place.real_topic, b"value", headers=[(ID, name.encode())], partition=number)
            producer.close()
            wait_until(lambda several=several: all(consuming.came(name) for name in several))
            before = len(made)
            wait_until(lambda before=before: len(made) > before + 1)
    finally:
        consuming.stop()
    assert {name: len(copies) for name, copies in consuming.found().items()} == dict.fromkeys("abcde", 1)
