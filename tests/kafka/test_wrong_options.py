"""What is wrong in a user's options is told in one way, by everything that makes a Kafka client."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from checkback.answering.endpoint import EndpointAnnouncer
from checkback.consumer import PullConsumer, PushConsumer
from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.resetting.all_groups import AllGroups
from checkback.consumer.resetting.control_topic import ControlTopic
from checkback.consumer.resetting.group_offsets import GroupOffsets
from checkback.exceptions import ConfigurationError, WrongOptionError
from checkback.kafka.connecting import TransportName
from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.operator_ops import OperatorOps
from checkback.operations.parked import ParkedMessages
from checkback.operations.topics import TopicAdministration, admin_client
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import Topics
from checkers.clients import KafkaClients
from conf import Settings
from streaming.brokers.client import SinkSettings
from streaming.trial import try_options
from tests.place import Place, fresh_place

if TYPE_CHECKING:  # a module that has it at run time is one whose every test needs a broker
    from checkback.local import LocalKafka

PYTHON, CONFLUENT = TransportName.KAFKA_PYTHON, TransportName.CONFLUENT
Options = Mapping[str, Any]
Make = Callable[[Place, Options], object]


@pytest.fixture(scope="module")
def place(broker: "LocalKafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Topics for all tests here: none of them gets as far as to write."""
    with fresh_place(broker.bootstrap_servers, tmp_path_factory.mktemp("options")) as made:
        yield made


def producer(transport: TransportName) -> Make:
    return lambda place, options: TransactionProducer(
        place.bootstrap_servers, "orders", topics=place.topics, transport=transport, kafka_options=options
    ).close()


def push(place: Place, options: Options) -> None:
    consumer = PushConsumer(
        *(place.bootstrap_servers, "points", lambda _: None, place.real_topic),  # type: ignore[arg-type]  # never called
        topics=place.topics,
        kafka_options=options,
    )
    with closing(consumer):
        consumer.start()


def pull(place: Place, options: Options) -> None:
    PullConsumer(place.bootstrap_servers, kafka_options=options).close()


def announcer(place: Place, options: Options) -> None:
    EndpointAnnouncer(
        place.bootstrap_servers, "orders", "http://127.0.0.1:1/", topics=place.topics, kafka_options=options
    ).close()


def check_service(place: Place, options: Options) -> None:
    kafka = {"bootstrap_servers": place.bootstrap_servers, "topic_prefix": place.topics.prefix}
    settings = Settings.model_validate({"kafka": {**kafka, "client_options": dict(options)}})
    KafkaClients(settings).close(5)


def entered(kind: Callable[..., Any]) -> Make:
    def make(place: Place, options: Options) -> None:
        topics = (place.topics,) if kind in {OperatorOps, ParkedMessages} else ()
        with kind(place.bootstrap_servers, *topics, options):
            pass

    return make


EVERYBODY: dict[str, tuple[TransportName, Make]] = {
    **{f"producer, {name}": (name, producer(name)) for name in TransportName},
    "push consumer": (CONFLUENT, push),
    "pull consumer": (CONFLUENT, pull),
    "reading": (PYTHON, lambda place, options: reading_consumer(place.bootstrap_servers, options=options).close()),
    "asking": (PYTHON, lambda place, options: admin_client(place.bootstrap_servers, options).close()),
    "topics": (PYTHON, entered(TopicAdministration)),
    "parked messages": (PYTHON, entered(ParkedMessages)),
    "operators' ops": (PYTHON, entered(OperatorOps)),
    "groups": (PYTHON, entered(AllGroups)),
    "offsets": (PYTHON, lambda place, options: GroupOffsets(place.bootstrap_servers, "points", options)),
    "orders to groups": (
        CONFLUENT,
        lambda place, options: closing(ControlTopic(place.topics.control, place.bootstrap_servers, options)),
    ),
    "check endpoint": (PYTHON, announcer),
    "check service": (PYTHON, check_service),
}
WRONG: dict[TransportName, dict[str, Any]] = {
    PYTHON: {"nonsense": 1, "request_timeout_ms": "soon", "bootstrap_servers": "127.0.0.1:1"},
    CONFLUENT: {"nonsense": 1, "socket.timeout.ms": "soon", "bootstrap.servers": "127.0.0.1:1"},
}
ELSEWHERE = {("orders to groups", "nonsense"), ("orders to groups", "bootstrap.servers")}
"""It takes those of a consumer's options that are about the connection; the consumer has refused what is nonsense."""
CASES = [(who, name) for who, (transport, _) in EVERYBODY.items() for name in WRONG[transport]]


@pytest.mark.parametrize(("who", "name"), [case for case in CASES if case not in ELSEWHERE])
def test_a_wrong_option_is_a_configuration_error_that_names_it(place: Place, who: str, name: str) -> None:
    transport, make = EVERYBODY[who]
    with pytest.raises(ConfigurationError, match=name) as raised:
        make(place, {name: WRONG[transport][name]})
    assert not raised.value.retriable


def test_who_sends_back_takes_what_says_how_kafka_is_reached_and_refuses_what_is_wrong_in_it(place: Place) -> None:
    connection = Connection(place.bootstrap_servers, "points", "test", {"reconnect.backoff.ms": "soon"})
    with pytest.raises(ConfigurationError, match=r"reconnect\.backoff\.ms"):
        Clients().sender(connection, f"{place.topics.prefix}sender")


OF_PULLING = {"isolation.level": "read_uncommitted", "enable.auto.commit": True, "group.id": "mine"}


@pytest.mark.parametrize("name", OF_PULLING)
def test_a_pull_consumer_keeps_its_promise_whatever_the_options_say(place: Place, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"must not set '{name}' of a pull consumer"):
        pull(place, {name: OF_PULLING[name]})


def test_options_that_several_clients_share_may_name_what_only_one_of_them_has(place: Place) -> None:
    shared = {"max_poll_records": 10, "linger_ms": 5, "request_timeout_ms": 20_000}
    admin_client(place.bootstrap_servers, shared).close()
    with pytest.raises(ConfigurationError, match="no option 'request_timeout'; did you mean 'request_timeout_ms'"):
        admin_client(place.bootstrap_servers, {"request_timeout": 20_000})


@pytest.mark.parametrize("options", [{"nonsense": "1"}, {"socket.timeout.ms": "soon"}])
def test_the_job_refuses_wrong_options_of_its_sink_before_it_asks_kafka_anything(options: dict[str, str]) -> None:
    said = "cannot use kafka.sink_options or kafka.security: .*" + next(iter(options))
    with pytest.raises(WrongOptionError, match=said):
        try_options(SinkSettings("127.0.0.1:1", Topics(), 60_000, options))
    try_options(SinkSettings("127.0.0.1:1", Topics(), 60_000, {"linger.ms": "7"}))


def test_the_command_line_ends_with_the_status_of_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """No supervisor starts it again for ever."""
    monkeypatch.setenv("CHECKBACK_KAFKA__CLIENT_OPTIONS", '{"nonsense": 1}')
    command = [sys.executable, "-m", "checkback", "topics", "list", "--bootstrap-server", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "there is no option 'nonsense'" in done.stderr) == (2, True), done.stderr


MAKERS = {"KafkaConsumer", "KafkaProducer", "KafkaAdminClient", "Consumer", "Producer", "AdminClient"}


def test_only_make_client_makes_a_client() -> None:
    root = Path(__file__).parents[2]
    product = ("access", "checkback", "checkback_cli", "checkers", "conf", "gateway", "status_page", "streaming")
    found = []
    for path in (path for name in product for path in (root / name).rglob("*.py")):
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        found += [str(path) for call in calls if isinstance(call.func, ast.Name) and call.func.id in MAKERS]
    assert found == []
