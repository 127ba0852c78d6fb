"""``checkback dlq`` on a real Kafka; a test writes what consumers would, and reads what the job would."""

import json
import threading
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from typer.testing import CliRunner, Result

from checkback.consumer import ReceivedMessage
from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.clients.sender import Sender
from checkback.consumer.retries.dead_letters import LetterPlace, mark_of
from checkback.consumer.retries.resending import transactional_id
from checkback.consumer.retry import OwnTopics, SentBack, as_it_was, dead_letter
from checkback.exceptions import CheckbackError
from checkback.operations.topics import TopicAdministration
from checkback_cli import app
from checkback_cli.groups.dead_letters import content_said
from tests.place import Place, find_by_environment, wait_until

GROUP = "points"
HOSTILE = b"v\x1b[2J\nforged\t\xe2\x80\xae"


class Dead:
    """A group's dead letters at a place, and the command as one types it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.own = OwnTopics.of(place.topics, GROUP)
        self._producer = Producer({"bootstrap.servers": place.bootstrap_servers, "linger.ms": 0})
        with TopicAdministration(place.bootstrap_servers) as administration:
            for name in (self.own.retry, self.own.dead):
                administration.create_one(name, 1)
            wait_until(lambda: len(administration.partitions([self.own.retry, self.own.dead])) == 2)

    def letter(self, name: str, value: bytes | None = b"v", topic: str = "", partition: int = 0, **more: Any) -> str:
        """A message died of which only its name matters; its place."""
        headers = [("cb-id", name.encode()), ("trace", b"1")]
        first = ReceivedMessage(
            topic or self.place.real_topic, partition, 41, b"k", value, headers, 1_767_225_600_000, 16
        )
        return self.write(dead_letter(first._replace(**more), self.own, "tried 17 times in vain"))

    def write(self, record: SentBack) -> str:
        sent: list[Any] = []
        self._producer.produce(
            *(record.topic, record.value, record.key, record.partition or 0),
            headers=list(record.headers),
            on_delivery=lambda *report: sent.extend(report),
        )
        assert (self._producer.flush(120), sent[0]) == (0, None)
        return f"0:{sent[1].offset()}"

    def invoke(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["dlq", *arguments])

    def objects(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.invoke(*arguments, "--json")
        assert done.exit_code == 0, (done.output, done.exception)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def lines(self, *arguments: str) -> list[list[str]]:
        done = self.invoke(*arguments)
        assert done.exit_code == 0, (done.output, done.exception)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def resend(self, *arguments: str) -> list[str]:
        """What became of each."""
        return [one["became"] for one in self.objects("resend", "--group", GROUP, "--yes", *arguments)]

    def refused(self, *arguments: str) -> str:
        error = self.invoke(*arguments).exception
        assert isinstance(error, CheckbackError), repr(error)
        return str(error)

    def listed(self, *arguments: str) -> list[str]:
        return [one["place"] for one in self.objects("list", "--group", GROUP, *arguments)]

    def sent_later(self) -> list[ReceivedMessage]:
        """What is on its way to the group, as the group will get it."""
        found = []
        for one in self.place.read(self.own.later):
            arrives = [pair for pair in one.headers if not pair[0].startswith("cb-")]
            delivered = ReceivedMessage(self.own.retry, 0, one.offset, one.key, one.value, arrives, one.timestamp)
            found.append(as_it_was(delivered))
        return found


@pytest.fixture
def dead(place: Place, monkeypatch: pytest.MonkeyPatch) -> Dead:
    find_by_environment(place, monkeypatch)
    return Dead(place)


def test_letters_are_listed_the_newest_first_and_shown_harmless(dead: Dead) -> None:
    first = dead.letter("one")
    second = dead.letter("two\n", HOSTILE, "shop.returns", headers=[("cb-id", b"two\n"), ("a\x1b]0;x\x07", b"\xff")])
    assert dead.listed() == [second, first]
    assert dead.listed("--limit", "1") == [second]
    assert dead.listed("--topic", dead.place.real_topic) == [first]
    shown = dead.lines("list", "--group", GROUP)
    assert [row[0] for row in shown] == [second, first]
    origin = f"{dead.place.real_topic}:0:41"
    assert shown[1][1:4] == ["one", origin, "2026-01-01 00:00:00"]
    assert shown[1][5:7] == ["17", "tried 17 times in vain"]
    assert shown[0][1] == "two\\n"
    assert dead.lines("list") == [[GROUP, "2", shown[0][4], dead.own.dead]]
    said = dead.invoke("show", second, "--group", GROUP).stdout
    assert "header\ta\\x1b]0;x\\x07: hex: ff\n" in said
    assert said.endswith("value\tv\\x1b[2J\\nforged\\t\\u202e\n")
    assert "There are more" in dead.invoke("list", "--group", GROUP, "-n", "1").stderr
    (whole,) = dead.objects("show", first, "--group", GROUP)
    assert (whole["key"], whole["value"], whole["headers"], whole["resent"]) == ("k", "v", [["trace", "1"]], None)


def test_many_are_read_piece_by_piece_from_the_end_back(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.consumer.retries.dead_letter_topic._AT_ONCE", 2)
    monkeypatch.setattr("checkback.consumer.retries.resending._MOST_LETTERS", 2)
    places = [dead.letter(f"number {number}") for number in range(7)]
    assert dead.resend(*places[1:6]) == ["resent"] * 5
    last = dead.letter("last")
    assert dead.listed() == [last, places[6], places[0]]
    assert dead.listed("--limit", "2") == [last, places[6]]
    assert dead.listed("--resent") == [last, *places[::-1]]
    assert dead.lines("list")[0][:2] == [GROUP, "3"]
    monkeypatch.setattr("checkback_cli.groups.dead_letters._COUNTED_OFFSETS", 5)
    assert dead.lines("list")[0][:3] == [GROUP, "at most 16", "-"]
    (row,) = dead.objects("list")
    assert (row["letters"], row["at_most"], row["newest_ms"]) == (None, 16, None)


def test_resent_to_its_group_it_is_as_it_was_and_marked(dead: Dead) -> None:
    places = [dead.letter(name, name.encode()) for name in ("one", "two", "three")]
    assert dead.resend(places[0], places[2], "--who", "ada") == ["resent", "resent"]
    one, three = dead.sent_later()
    assert (one.value, one.id, one.tries, one.offset, one.topic) == (b"one", "one", 0, 41, dead.place.real_topic)
    assert one.headers == [("cb-id", b"one"), ("trace", b"1")]
    assert three.value == b"three"
    assert dead.listed() == [places[1]]
    all_of_them = dead.objects("list", "--group", GROUP, "--resent")
    assert [row["place"] for row in all_of_them] == places[::-1]
    assert [row["resent"] and (row["resent"]["to"], row["resent"]["by"]) for row in all_of_them] == [
        (dead.own.retry, "ada"),
        None,
        (dead.own.retry, "ada"),
    ]
    mark = int(places[2].partition(":")[2]) + 1
    assert f"it says that the one at {places[0]} was resent" in dead.refused("show", f"0:{mark}", "--group", GROUP)
    assert dead.lines("list")[0][1] == "1"


def test_the_same_again_does_no_harm(dead: Dead) -> None:
    assert (dead.lines("list"), dead.objects("list")) == ([], []), "no letter, and a group is not listed"
    place = dead.letter("one")
    assert [row["letters"] for row in dead.objects("list")] == [1]
    assert dead.resend("--all") == ["resent"]
    assert (dead.lines("list"), dead.objects("list")) == ([], []), "nor with none but those that were resent"
    assert dead.resend("--all") == []
    again = dead.invoke("resend", place, "--group", GROUP, "--yes")
    assert (again.exit_code, again.stdout) == (0, "None is left to be resent: nothing was done.\n")
    assert f"{place} was resent" in again.stderr
    assert len(dead.sent_later()) == 1
    assert dead.resend(place, "--again") == ["resent"]
    assert len(dead.sent_later()) == 2


def test_to_its_origin_it_goes_for_everybody_as_it_was(dead: Dead) -> None:
    here = dead.letter("one", partition=3)
    tombstone = dead.letter("two", None, partition=1, key=None, headers=[("cb-id", b"two"), ("none", None)])
    gone = dead.letter("three", partition=9)
    done = dead.invoke("resend", "--all", "--group", GROUP, "--to", "origin", "--yes")
    assert done.exit_code == 1
    assert "EVERY group that reads it gets them again" in done.stderr
    assert f"{gone} refused: {dead.place.real_topic} has no partition 9 any more" in done.stdout
    assert done.stdout.endswith("2 resent.\n")
    found = [(one.partition, one.key, one.value, one.headers) for one in dead.place.read(dead.place.real_topic)]
    assert found == [
        (1, None, None, [("cb-id", b"two"), ("none", None)]),
        (3, b"k", b"v", [("cb-id", b"one"), ("trace", b"1")]),
    ]
    assert dead.listed() == [gone]
    assert tombstone not in dead.listed()
    assert dead.objects("show", here, "--group", GROUP)[0]["resent"]["to"] == dead.place.real_topic
    assert dead.sent_later() == []


def test_of_two_who_resend_at_a_time_the_first_is_stopped_and_nothing_is_doubled(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes when the first has looked at all marks and is about to write."""
    dead.letter("one")
    dead.letter("two")
    second: list[str] = []
    send = Sender.send

    def late(self: Any, *arguments: Any, **options: Any) -> None:
        if not second:
            second.append("")
            second[:] = dead.resend("--all", "--who", "eve")
        send(self, *arguments, **options)

    monkeypatch.setattr(Sender, "send", late)
    said = dead.refused("resend", "--all", "--group", GROUP, "--yes")
    assert "Somebody else has begun to resend dead letters of points" in said
    assert second == ["resent", "resent"]
    assert [one.id for one in dead.sent_later()] == ["one", "two"]
    assert dead.listed() == []


def test_who_comes_later_ends_what_one_that_was_killed_has_left(dead: Dead) -> None:
    place = dead.letter("one")
    name = transactional_id(dead.place.topics, GROUP)
    killed = KafkaProducer(bootstrap_servers=dead.place.bootstrap_servers, transactional_id=name)
    with closing(killed):
        killed.init_transactions()
        killed.begin_transaction()
        mark = mark_of(LetterPlace.parse(place), dead.own, dead.own.retry, "killed")
        killed.send(mark.topic, mark.value, mark.key, headers=list(mark.headers), partition=0).get(120)
        assert dead.resend("--all", "--who", "ada") == ["resent"]
        (row,) = dead.objects("list", "--group", GROUP, "--resent")
        assert row["resent"]["by"] == "ada"
        killed.close(0)


def test_nothing_is_resent_while_somebody_s_transaction_may_hide_a_mark(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead.letter("one")
    outcome: list[str] = []
    dying = KafkaProducer(bootstrap_servers=dead.place.bootstrap_servers, transactional_id=f"{dead.own.dead}-dying")
    with closing(dying):
        dying.init_transactions()
        dying.begin_transaction()
        dying.send(dead.own.dead, b"another that dies at this moment", partition=0).get(120)
        with monkeypatch.context() as impatient:
            impatient.setattr("checkback.consumer.retries.resending._SETTLED_SECONDS", 0.2)
            said = dead.refused("resend", "--all", "--group", GROUP, "--yes")
        assert f"{dead.own.dead} is held back by somebody's open transaction" in said
        thread = threading.Thread(target=lambda: outcome.extend(dead.resend("--all")))
        thread.start()
        thread.join(1)
        assert thread.is_alive()
        assert dead.sent_later() == []
        dying.commit_transaction()
        thread.join(30)
    assert outcome == ["resent"]
    assert len(dead.sent_later()) == 1


def test_a_transaction_without_offsets_goes_to_the_partitions_it_names(dead: Dead) -> None:
    connection = Connection(dead.place.bootstrap_servers, GROUP, "test")
    with closing(Clients().sender(connection, f"{GROUP}.sender")) as sender:
        records = [SentBack(dead.place.real_topic, None, b"%d" % number, [], number) for number in range(4)]
        sender.send([*records, SentBack(dead.own.later, None, b"any", [])], {}, None)
    assert [(one.partition, one.value) for one in dead.place.read(dead.place.real_topic)] == [
        (number, b"%d" % number) for number in range(4)
    ]
    assert len(dead.place.read(dead.own.later)) == 1


def test_it_asks_and_refuses_what_makes_no_sense(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    place = dead.letter("one")
    resend = ("resend", "--group", GROUP)
    for arguments in ([place], [place, "--all", "--yes"], ["--yes"], ["--all", "--again", "--yes"], ["1", "--yes"]):
        assert dead.invoke(*resend, *arguments).exit_code == 2
    assert dead.invoke(*resend, place, "--to", "nowhere", "--yes").exit_code == 2
    assert dead.invoke("list", "--topic", "x").exit_code == 2
    assert "There is no dead letter at 0:9." in dead.refused(*resend, "0:9", "--yes")
    assert "There is no dead letter at 7:0." in dead.refused(*resend, "7:0", "--yes")
    assert "has no record at 0:9" in dead.refused("show", "0:9", "--group", GROUP)
    assert "no consumer of that group has ever made it" in dead.refused("list", "--group", "nobody")
    monkeypatch.setattr("checkback_cli.groups.dead_letters.on_a_terminal", lambda: True)
    monkeypatch.setattr("rich.prompt.Confirm.ask", lambda *_, **__: False)
    done = dead.invoke(*resend, place)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "Nothing was done.")
    assert dead.sent_later() == []
    monkeypatch.setattr("rich.prompt.Confirm.ask", lambda *_, **__: True)
    assert dead.invoke(*resend, place).stdout.splitlines()[-1] == "1 resent."


def test_without_the_topics_of_retries_it_says_what_to_do(dead: Dead, monkeypatch: pytest.MonkeyPatch) -> None:
    other = OwnTopics.of(dead.place.topics, "mail")
    with TopicAdministration(dead.place.bootstrap_servers) as administration:
        administration.create_one(other.dead, 1)
        wait_until(lambda: bool(administration.partitions([other.dead])))
    first = ReceivedMessage(dead.place.real_topic, 0, 1, None, b"v", [], 5)
    dead.write(dead_letter(first, other, "no"))
    said = dead.refused("resend", "--all", "--group", "mail", "--yes")
    assert f"Kafka has no topic {other.retry}, by which a group gets messages again" in said


def test_content_is_bounded_and_what_is_no_text_is_in_hex() -> None:
    assert content_said(None, 9) == "null"
    assert content_said(b"", 9) == ""
    assert content_said("größer".encode(), 9) == "größer"
    assert content_said(b"0123456789", 4) == "0123 ... (10 bytes)"
    assert content_said(b"\xff\x00\x01\x02", 4) == "hex: ff 00 01 02"
    assert content_said(b"\xff\x00\x01\x02", 2) == "hex: ff 00 ... (4 bytes)"
    assert content_said(b"\xff", 0) == "hex:  ... (1 bytes)"
