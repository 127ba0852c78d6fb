"""Every command that reads a topic, on topics full of hostile records: it ends well, and has what lies between them."""

import json
from contextlib import closing

import pytest
from typer.testing import CliRunner, Result

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.operations.story_events import event_of
from checkback.wire.printable import printable
from checkback.wire.protocol import Action
from checkback_cli import app
from checkback_cli.on_call.candidates import Candidate
from checkback_cli.on_call.tail import Fitting, event_object, line
from checkback_cli.on_call.waiting import Awaited
from checkback_cli.terminal.listing import show_objects
from tests.hostile.place import GROUP, HALF
from tests.place import Place

COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "open": (("open",), "good"),
    "parked": (("parked", "list", "--ended"), "good"),
    "rejected": (("rejected",), "it is good"),
    "groups": (("groups",), "shop"),
    "show, by id": (("show", "good"), "good"),
    "show, by place": (("show", "--half", "0:0"), "good"),
    "show, of hostile ones": (("show", "--half", "0:900"), ""),
    "dlq": (("dlq", "list"), GROUP),
    "dlq of a group": (("dlq", "list", "-g", GROUP, "--resent", "-n", "1000"), ":0:41"),
}
TOPICS = ("half", "op", "check", "parked", "rejected", "status", "producers", "control", "dlq.points", "orders")


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_says_what_lies_between_hostile_records(typed_there: Place, what: str, *, as_json: bool) -> None:
    arguments, wanted = COMMANDS[what]
    assert wanted in said(*arguments, as_json=as_json)


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_is_printed_to_its_last_record(
    typed_there: Place, polluted: tuple[Place, dict[str, int]], topic: str
) -> None:
    name = f"{typed_there.topics.prefix}{topic}"
    count = polluted[1][name]
    lines = said("read", name, "-n", str(count), as_json=False).splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"0:{offset}" for offset in range(count)]
    if topic in {"check", "orders"}:
        objects = [json.loads(line) for line in said("read", name, "-n", str(count), as_json=True).splitlines()]
        assert [one["offset"] for one in objects] == list(range(count))
    assert all(cell == printable(cell) for line in lines for cell in line.split("\t"))


def test_what_happens_is_told_of_every_record(
    typed_there: Place, polluted: tuple[Place, dict[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """As 'tail' does, and who waits for what becomes of an operator's op."""
    topics = typed_there.topics
    awaited = Awaited([Candidate("good", "shop", "x", HALF, 0, "", frozenset(), row=True)], Action.COMMIT)
    fitting = Fitting(None, None)
    told = 0
    with closing(reading_consumer(typed_there.bootstrap_servers)) as consumer:
        for topic in (topics.half, topics.op, topics.check, topics.status, topics.parked, topics.rejected):
            for record in records_to_end(consumer, topic):
                awaited.take(record, topics)
                event = event_of(record, topics)
                known = None if event is None else fitting.known(event)
                if known is not None:
                    told += 1
                    show_objects([event_object(known)])
                    assert all(cell == printable(cell) for cell in line(known).split("\t"))
    assert len(capsys.readouterr().out.splitlines()) == told > 1_000


def said(*arguments: str, as_json: bool) -> str:
    done = invoke(*arguments, *(["--json"] if as_json else []))
    assert done.exit_code == 0, (done.output[-2_000:], done.exception)
    if as_json:
        assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())
    return done.stdout


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)
