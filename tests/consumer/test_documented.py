"""The consumers of docs/consumers.md, on a Kafka in memory."""

import re
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import checkback.consumer
from checkback.consumer import ConsumerSettings, PushConsumer
from checkback.exceptions import KafkaUnreachableError
from tests.consumer.kafka_fake import FakeKafka
from tests.consumer.waiting import soon

_BLOCKS = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "consumers.md").read_text(encoding="utf-8"), re.DOTALL
)


def test_they_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kafka = FakeKafka()

    class Here(PushConsumer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, clients=kafka)

        def wait(self, seconds: float | None = None) -> bool:
            soon(lambda: self.figures().partitions)
            kafka.write("shop.orders", b"paid")
            soon(lambda: self.figures().all.done == 1)
            return True

    kafka.write("shop.orders", b"before the group's time")
    monkeypatch.setattr(checkback.consumer, "PushConsumer", Here)
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    names: dict[str, Any] = {}
    for number, block in enumerate(_BLOCKS):
        exec(compile(block, f"docs/consumers.md ({number})", "exec"), names)  # noqa: S102  (that is the test)
    assert capsys.readouterr().out == "paid b'paid'\n"
    assert len(_BLOCKS) == 2
    assert handlers.keys() == {signal.SIGTERM, signal.SIGINT}
    for number, handler in handlers.items():
        with pytest.raises(SystemExit):
            handler(number, None)


def test_with_a_wrong_address_it_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise KafkaUnreachableError("No Kafka answers at localhost:9092.")

    monkeypatch.setattr(checkback.consumer, "PushConsumer", away)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        exec(compile(_BLOCKS[0], "docs/consumers.md (0)", "exec"), {})  # noqa: S102  (that is the test)
    assert ended.value.code == "No Kafka answers at localhost:9092."


def test_each_setting_stands_there_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "consumers.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", page, re.MULTILINE))
    for setting in fields(ConsumerSettings):
        default = setting.default
        if setting.name == "retry_levels":
            assert "| `retry_levels` | RocketMQ's 18 |" in page
        elif isinstance(default, float) or (isinstance(default, int) and not isinstance(default, bool)):
            assert float(said[setting.name].replace(",", "")) == default, setting.name
        else:
            assert said[setting.name] == str(default), setting.name
