"""``checkback offsets`` on a real Kafka: groups that have stopped, and of other clients.

Groups that run: ``consumer/on_kafka/test_on_kafka.py``.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, RebalanceInProgressError
from typer.testing import CliRunner, Result

from checkback.consumer.resetting.control import ResetDone
from checkback.consumer.resetting.control_topic import ControlTopic
from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.polling import poll
from checkback_cli import app
from tests import place as places
from tests.place import wait_until

GROUP = "points"
EACH = 20


class Consumer(threading.Thread):
    """A consumer of another client, as small as it can be."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self.got: list[tuple[int, int]] = []
        self._ending = threading.Event()
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )

    def run(self) -> None:
        with closing(self._consumer):
            while not self._ending.is_set():
                for records in poll(self._consumer, 50).values():
                    self.got += [(record.partition, record.offset) for record in records]
                with suppress(CommitFailedError, RebalanceInProgressError):
                    self._consumer.commit()

    def close(self) -> None:
        self._ending.set()
        self.join()


class Running:
    """A group with its topic, and the command as one types it."""

    def __init__(self, place: places.Place, config: Path, name: str) -> None:
        self.place, self.config, self.topic = place, config, place.real_topic
        self.group = f"{place.topics.prefix}{name}"
        self.consumers: list[Consumer] = []

    def consumer(self) -> None:
        """One more member."""
        self.consumers.append(Consumer(self.place.bootstrap_servers, self.topic, self.group))
        self.consumers[-1].start()

    def control(self) -> ControlTopic:
        return ControlTopic(self.place.topics.control, self.place.bootstrap_servers, {})

    def write(self, count: int = EACH) -> None:
        with closing(self.place.producer()) as producer:
            for partition in range(4):
                for number in range(count):
                    producer.send(self.topic, b"%d" % number, partition=partition)
            producer.flush(120)

    def got(self) -> list[tuple[int, int]]:
        return sorted(one for consumer in self.consumers for one in consumer.got)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.got()) >= count, f"{count} messages")

    def wait_until_all_is_stored(self) -> None:
        self.wait_for(4 * EACH)
        wait_until(lambda: self.stored() == [EACH] * 4, "the stored offsets")

    def command(self, *arguments: str) -> Result:
        given = ("--config", str(self.config), "--group", self.group)
        return CliRunner().invoke(app, ["offsets", *arguments, *given])

    def said(self, *arguments: str) -> list[Any]:
        result = self.command(*arguments, "--json")
        assert result.exit_code == 0, result.output + repr(result.exception)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def refused(self, *arguments: str) -> str:
        error = self.command(*arguments).exception
        assert isinstance(error, CheckbackError), repr(error)
        return str(error)

    def reset(self, to: str, *arguments: str) -> list[Any]:
        return self.said("reset", "--topic", self.topic, "--to", to, "--yes", *arguments)

    def stored(self) -> list[int | None]:
        return [row["next"] for row in self.said("show", "--topic", self.topic)]

    def has_stored_nothing(self) -> None:
        unknown = f"The group {self.group} has stored nothing and has no members: is the name right?"
        assert self.refused("show") == unknown
        assert self.refused("show", "--topic", self.topic) == unknown

    def stop(self) -> None:
        for consumer in self.consumers:
            consumer.close()
        self.consumers = []


@pytest.fixture
def running(place: places.Place, tmp_path: Path) -> Iterator[Running]:
    config = tmp_path / "checkback.toml"
    config.write_text(
        f'[kafka]\nbootstrap_servers = "{place.bootstrap_servers}"\ntopic_prefix = "{place.topics.prefix}"\n'
    )
    made = Running(place, config, GROUP)
    yield made
    made.stop()


def test_a_group_that_has_stopped_is_set_by_the_command(running: Running) -> None:
    running.write()
    running.consumer()
    running.wait_until_all_is_stored()
    running.stop()
    planned = running.said("reset", "--topic", running.topic, "--to", "earliest", "--dry-run")
    assert planned[0] == {"partition": 0, "next": EACH, "to": 0, "what": f"{EACH} again"}
    assert running.stored() == [EACH] * 4
    rows = running.reset("earliest", "--partition", "2")
    assert rows == [
        {"partition": 2, "was at": EACH, "goes on at": 0, "set by": "this command: the group had no members"}
    ]
    assert running.stored() == [EACH, EACH, 0, EACH]
    running.consumer()
    running.wait_for(EACH)
    assert running.got() == [(2, offset) for offset in range(EACH)]


def test_a_group_of_other_clients_is_to_be_stopped_and_who_is_in_it_is_said(running: Running) -> None:
    running.write()
    running.consumer()
    running.wait_until_all_is_stored()
    said = running.refused("reset", "--topic", running.topic, "--to", "earliest", "--yes", "--wait", "1s")
    assert "nothing was heard of partitions 0, 1, 2, 3: kafka-python-" in said
    assert "at 127.0.0.1" in said
    assert f"stop all of the group {running.group}" in said
    assert "a member has died, and its session has not timed out yet (up to 45 s by default): do it again" in said
    assert running.stored() == [EACH] * 4
    assert len(running.got()) == 4 * EACH
    shown = running.said("show")
    assert {(row["topic"], row["lag"], row["host"]) for row in shown} == {(running.topic, 0, "127.0.0.1")}


def test_by_time(running: Running) -> None:
    running.write()
    time.sleep(0.01)
    noon = int(time.time() * 1000)
    time.sleep(0.01)
    running.write()
    text = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(noon // 1000))}.{noon % 1000:03d}Z"
    running.has_stored_nothing()
    rows = running.reset(text, "--new-group")
    assert [row["goes on at"] for row in rows] == [EACH] * 4
    assert running.stored() == [EACH] * 4
    running.reset("earliest", "--partition", "0")
    running.reset("latest", "--force", "--partition", "1")
    said = running.refused("reset", "--topic", running.topic, "--to", text, "--yes")
    assert said.startswith("Not set: partition 0. To go forward"), "where some are set, too"
    assert running.stored() == [0, EACH, EACH, EACH]
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))
    assert [row["goes on at"] for row in running.reset(tomorrow, "--force")] == [2 * EACH] * 4


def test_it_asks_before_it_acts(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    running.write()
    to_earliest = ("reset", "--topic", running.topic, "--to", "earliest", "--new-group")
    result = running.command(*to_earliest)
    assert result.exit_code == 2
    assert "there is nobody to ask here: give --yes" in result.output
    monkeypatch.setattr("checkback_cli.groups.group_offsets.on_a_terminal", lambda: True)
    monkeypatch.setattr("rich.prompt.Confirm.ask", lambda *_, **__: False)
    result = running.command(*to_earliest)
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, "Nothing was done.")
    running.has_stored_nothing()
    monkeypatch.setattr("rich.prompt.Confirm.ask", lambda *_, **__: True)
    assert running.command(*to_earliest).exit_code == 0
    assert running.stored() == [0] * 4


def test_what_is_not_there_is_refused(running: Running) -> None:
    assert "Kafka has no topic nowhere" in running.refused("reset", "--topic", "nowhere", "--to", "earliest", "--yes")
    chosen = ("reset", "--yes", "--topic", running.topic, "--to")
    said = running.refused(*chosen, "latest")
    assert f"The group {running.group} has stored nothing and has no members: is the name right?" in said
    assert "--new-group" in said
    running.has_stored_nothing()
    assert "and none with number 4, 9" in running.refused(*chosen, "earliest", "-p", "1", "-p", "4", "-p", "9")
    assert "no offset for partition 0" in running.refused(*chosen, "-5", "--new-group")
    assert "is not a place to go to" in running.refused(*chosen, "yesterday")


def test_the_control_topic_is_read_from_now_on(running: Running) -> None:
    done = ResetDone("one", 3, 4, 5, "me")
    with closing(running.control()) as first:
        first.write({b"before": b"1"})
    with closing(running.control()) as control:
        assert control.read(0.1) == []
        assert control.go_to_end()
        control.write({done.key: done.value})
        control.write({done.key: None})
        control.write({})
        found: list[tuple[bytes | None, bytes | None]] = []

        def all_there() -> bool:
            found.extend((record.key, record.value) for record in control.read(1))
            return len(found) >= 2

        wait_until(all_there)
        assert found == [(done.key, done.value), (done.key, None)]
    missing = ControlTopic("no-such-topic", running.place.bootstrap_servers, {"group.id": "never"})
    with closing(missing):
        assert not missing.go_to_end()


def test_without_a_control_topic_running_consumers_cannot_be_told(running: Running) -> None:
    running.write()
    running.consumer()
    running.wait_until_all_is_stored()
    running.config.write_text(
        f'[kafka]\nbootstrap_servers = "{running.place.bootstrap_servers}"\ntopic_prefix = "no."\n'
    )
    said = running.refused("reset", "--topic", running.topic, "--to", "earliest", "--yes")
    assert "Kafka has no topic no.control" in said
