"""The generated modules are what RocketMQ's interface says."""

from pathlib import Path

import gateway.rocketmq.v2
from gateway.protos.generate import generated


def test_the_generated_modules_are_those_of_the_interface() -> None:
    folder = Path(gateway.rocketmq.v2.__file__).parent
    made = generated()
    assert set(made) == {path.name for path in folder.glob("*_pb2.py*")}
    for name, content in made.items():
        assert (folder / name).read_text(encoding="utf-8") == content, "python -m gateway.protos.generate"
