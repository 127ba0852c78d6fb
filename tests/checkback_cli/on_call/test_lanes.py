"""What operators' commands do about half messages whose producer may have delivered them, on a real Kafka."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from checkback.kafka.librdkafka.lanes import LaneRecord
from checkback.wire import protocol
from checkback.wire.lanes import new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import CONTESTED, LANE, HalfPosition
from tests.checkback_cli.on_call.scene import invoke, objects
from tests.job_records import JobRecords
from tests.kafka.lanes import opened
from tests.place import Place

WHY = ("--yes", "--why", "x")


def ops(place: Place) -> list[tuple[str, str, str]]:
    """Id, action, and what each says of the lane."""
    found = [dict(record.headers) for record in place.read(place.topics.op)]
    facts = (protocol.DELIVERED, protocol.SETTLED)
    return [
        (one["cb-id"].decode(), one["cb-action"].decode(), " ".join(name for name in facts if name in one))
        for one in found
    ]


class OfLane:
    """Half messages of one lane that is alive: it has delivered ``done``, and not ``open``."""

    def __init__(self, written: JobRecords) -> None:
        self.lane = new_lane()
        self.done, self.open = (written.half(name, more=((LANE, self.lane.encode()),)) for name in ("done", "open"))
        for name, half in (("done", self.done), ("open", self.open)):
            written.in_doubt(name, half)
        self.writer = opened(written.place, self.lane, "shop")
        message = LaneRecord(written.place.real_topic, None, None, b"v", [("cb-id", b"done")])
        self.writer.deliver([message], Ledger([self.done]))


@pytest.fixture
def of_lane(written: JobRecords) -> Iterator[OfLane]:
    made = OfLane(written)
    with closing(made.writer):
        yield made


def test_what_its_lane_has_delivered_is_not_rolled_back(written: JobRecords, of_lane: OfLane) -> None:
    done = invoke("rollback", "done", "open", *WHY, "--wait", "200ms")
    assert done.exit_code == 1, (done.output, done.exception)
    assert f"done at {of_lane.done}: no rollback: its lane has delivered it, so that is committed." in done.output
    said = done.output.partition("rollback: 1 written.")[2]
    assert "1 not ended yet: open." in said, "what became of the others is said, too"
    assert sorted(ops(written.place)) == [("done", "commit", "cb-delivered"), ("open", "rollback", "cb-settled")]


def test_a_story_names_the_lane_and_what_an_op_says_of_it(written: JobRecords, of_lane: OfLane) -> None:
    assert invoke("commit", "done", *WHY).exit_code == 0
    (story,) = objects("show", "done")
    assert (story["lane"], story["stands"]) == (of_lane.lane, "delivered")
    assert [one["what"] for one in story["events"] if one["kind"] == "op"] == ["commit by operator: its lane delivered"]
    assert of_lane.lane in invoke("show", "done").output


def _unknown(written: JobRecords, reason: str) -> HalfPosition:
    """A parked one of which nobody can know whether it was delivered."""
    lane = new_lane()
    half = written.half("tx", more=((LANE, lane.encode()),))
    written.parked("tx", half, reason)
    if reason == CONTESTED:
        opened(written.place, lane, "shop").close()
    return half


@pytest.mark.parametrize("reason", ["undecided for longer than the age limit", CONTESTED])
def test_where_nobody_can_know_the_operator_looks_and_says(written: JobRecords, reason: str) -> None:
    half = _unknown(written, reason)
    refused = invoke("commit", "tx", *WHY)
    assert refused.exit_code == 1
    assert f"tx at {half}: nothing is written. Nobody can know whether it was delivered" in refused.output
    assert ops(written.place) == []
    assert invoke("rollback", "tx", *WHY, "--not-delivered").exit_code == 0
    assert invoke("commit", "tx", *WHY, "--delivered").exit_code == 0
    assert invoke("resume", "tx", *WHY, "--not-delivered").exit_code == (1 if reason == CONTESTED else 0)
    said = [("tx", "rollback", "cb-settled"), ("tx", "commit", "cb-delivered"), ("tx", "resume", "cb-settled")]
    assert ops(written.place) == (said[:2] if reason == CONTESTED else said)


@pytest.mark.parametrize(
    "arguments",
    [
        ["commit", "--delivered", "--not-delivered"],
        ["rollback", "--delivered"],
        ["resume", "--delivered"],
        ["redeliver", "--not-delivered"],
    ],
)
def test_what_was_seen_must_be_of_use(arguments: list[str]) -> None:
    assert invoke(arguments[0], "tx", *WHY, *arguments[1:]).exit_code == 2
