"""The ends of the half logs, where a client does not find Kafka again."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.wire.protocol import Topics
from streaming.checkpoint import half_logs
from streaming.checkpoint.half_logs import HalfLogs


class Admin:
    """The first one made has lost Kafka for good."""

    made = 0

    def __init__(self, _client: Any) -> None:
        Admin.made += 1
        self.lost = Admin.made == 1

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self.lost:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={})})

    def list_offsets(self, asked: Any, request_timeout: float) -> dict[Any, Any]:
        return {}


def test_each_try_has_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_logs, "AdminClient", Admin)
    logs = HalfLogs(SimpleNamespace(names=lambda _: []), {}, Topics())  # type: ignore[arg-type]  # all that is asked of it
    with pytest.raises(KafkaException):
        logs._ask_again([0])
    assert logs._ask_again([0]) == {"0": 0}
