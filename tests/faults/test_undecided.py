"""Messages that did not come: which of them the job had a commit for, on a real Kafka."""

from pathlib import Path

import pytest
from kafka import KafkaProducer

from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers
from tests.place import Place
from torture import undecided as module
from torture.undecided import Begun, last_begun, undecided

ENTRY = """v1
{"batchWatermarkMs":0,"batchTimestampMs":5000,"conf":{}}
{"%s":{"0":2,"1":0},"%s":{"0":1,"1":0}}
-"""


def test_a_commit_that_the_job_has_read_makes_it_lost(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Topics", lambda: place.topics)
    producer = KafkaProducer(bootstrap_servers=place.bootstrap_servers)

    def op(name: str, action: Action) -> None:
        headers = op_headers(name, "shop", HalfPosition(0, 0), action, Source.PRODUCER)
        producer.send(place.topics.op, b"", headers=headers, partition=0).get(120)

    for name, action in (("read", Action.COMMIT), ("rolled", Action.ROLLBACK), ("unread", Action.COMMIT)):
        op(name, action)
    for name, due in (("later", b"9000"), ("due", b"4000")):
        op(name, Action.COMMIT)
        held = [(protocol.ID, name.encode()), (protocol.HELD, b"1 1 0:0"), (protocol.DELIVER_AT, due)]
        producer.send(place.topics.half, b"", headers=held, partition=0).get(120)
    producer.close()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text(ENTRY % (place.topics.half, place.topics.op))
    missing = {"read", "rolled", "unread", "later", "due", "never", "read#2"}
    assert undecided(place.bootstrap_servers, tmp_path, missing) == {"rolled", "unread", "later", "due", "never"}
    (tmp_path / "offsets" / "8").write_text((ENTRY % (place.topics.half, place.topics.op)).replace('"0":1', '"0":9'))
    assert undecided(place.bootstrap_servers, tmp_path, missing) == {"rolled", "later", "never"}


def test_without_a_batch_nothing_was_read(tmp_path: Path) -> None:
    assert last_begun(tmp_path) == Begun(0, {})
