"""``checkback send``, ``read`` and ``rejected``, in a pipe as scripts use them."""

import json

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner, Result

from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.wire import protocol
from checkback_cli import app
from tests.place import Place


@pytest.fixture
def invoke(place: Place, monkeypatch: pytest.MonkeyPatch) -> "Invoke":
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", place.topics.prefix)
    return Invoke(place)


class Invoke:
    """Runs a command on the place's broker."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __call__(self, *arguments: str, given: str = "") -> Result:
        command = [*arguments, "--bootstrap-server", self._place.bootstrap_servers]
        return CliRunner().invoke(app, command, input=given)


def test_a_message_is_sent_with_its_headers(invoke: Invoke, place: Place) -> None:
    done = invoke("send", place.real_topic, '{"order": 1}', "--key", "k", "--header", "a=1", "--header", "b==")
    assert done.exit_code == 0, done.output
    (half,) = place.read(place.topics.half)
    assert (half.key, half.value) == (b"k", b'{"order": 1}')
    headers = dict(half.headers)
    assert (headers["a"], headers["b"], headers[protocol.ACTION]) == (b"1", b"=", b"commit")
    assert done.output.split()[0] == headers[protocol.ID].decode()


def test_each_line_of_standard_input_is_a_message(invoke: Invoke, place: Place) -> None:
    done = invoke("send", place.real_topic, given="one\ntwo\n")
    assert done.exit_code == 0, done.output
    assert sorted(half.value for half in place.read(place.topics.half)) == [b"one", b"two"]


def test_what_cannot_be_sent_is_refused(invoke: Invoke, place: Place) -> None:
    for arguments in (("--header", "a"), ("--delay", "soon")):
        done = invoke("send", place.real_topic, "v", *arguments)
        assert isinstance(done.exception, ConfigurationError)
    assert place.read(place.topics.half) == []


def put(place: Place, topic: str, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    producer = KafkaProducer(bootstrap_servers=place.bootstrap_servers)
    producer.send(topic, value, key, headers=headers, partition=0)
    producer.close()


def test_messages_are_read_as_json_or_a_line_each(invoke: Invoke, place: Place) -> None:
    assert "no topic nowhere: 'checkback topics create nowhere' makes it" in str(invoke("read", "nowhere").exception)
    nothing = invoke("read", place.real_topic, "--wait", "500ms").exception
    assert isinstance(nothing, CheckbackError)
    assert "No message has come" in str(nothing)
    put(place, place.real_topic, "größe".encode(), None, [("a", b"1"), ("a", b"2")])
    read = json.loads(invoke("read", place.real_topic, "--count", "1", "--json").output)
    assert (read["value"], read["key"], read["headers"]) == ("größe", None, [["a", "1"], ["a", "2"]])
    assert (read["partition"], read["offset"]) == (0, 0)
    put(place, place.real_topic, b'{"order": 1}', b"k", [("cb-id", b"tx")])
    put(place, place.real_topic, b"\xff", None, [])
    done = invoke("read", place.real_topic, "--count", "3")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1:] == ['0:1\tk\t{"order": 1}\tcb-id=tx', "0:2\t-\tbase64:/w==\t"]


def test_rejected_records_are_listed_with_their_reasons(invoke: Invoke, place: Place) -> None:
    headers = [
        (protocol.REASON, b"cb-id is missing"),
        (protocol.FROM, b"cb.half:1:7"),
        (protocol.GROUP, b"shop"),
        (protocol.TOPIC, b"orders"),
    ]
    put(place, place.topics.rejected, b"v", None, headers)
    put(place, place.topics.rejected, b"v", None, [(protocol.REASON, b"other"), (protocol.GROUP, b"evil\n")])
    done = invoke("rejected")
    assert done.exit_code == 0, done.output
    first, second = done.output.splitlines()
    assert first.split("\t")[1:] == ["cb.half:1:7", "cb-id is missing", "", "shop", "orders", ""]
    assert second.split("\t")[4] == r"evil\n"
    (only,) = invoke("rejected", "--group", "shop", "--json").output.splitlines()
    assert json.loads(only)["reason"] == "cb-id is missing"
