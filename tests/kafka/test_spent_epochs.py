"""A connection that fails during a transaction ends a producer's epoch: on librdkafka's own mock of a cluster.

``CONFLUENT_KAFKA`` names another version of the library, for :func:`test_each_supported_version_logs_lost_connections`.
"""

import ctypes
import gc
import logging
import os
import re
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import psutil
import pytest

from checkback.kafka.librdkafka import transactional
from checkback.kafka.librdkafka.connection_log import ConnectionLog
from checkback.kafka.librdkafka.errors import serve
from checkback.kafka.librdkafka.library import KafkaError, KafkaException
from checkback.kafka.librdkafka.transactional import SpentEpochError, Transactional, transactional_settings

ROOT = Path(__file__).parents[2]
SECONDS = 20.0
VERSIONS = ("2.6.0", "2.8.0", "2.11.0", "2.13.0")
"""The oldest that ``pyproject.toml`` allows, and some up to the one installed."""


def connections() -> dict[object, int]:
    """The file descriptor of each open TCP connection of this process, by its local address."""
    every = psutil.Process().net_connections("tcp")
    return {at.laddr: at.fd for at in every if at.status == psutil.CONN_ESTABLISHED and at.fd >= 0}


def cut(before: Collection[object]) -> int:
    """Shut down the connections that were made since ``before``; returns their number."""
    count = 0
    for address, number in connections().items():
        if address not in before:
            with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:  # closed meanwhile
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def until(condition: Callable[[], bool], kafka: Transactional) -> None:
    deadline = monotonic() + SECONDS
    while not condition():
        assert monotonic() < deadline
        kafka.poll(0.01)


class Scene:
    """A producer that is ready for a transaction, and the sockets that are not its own."""

    def __init__(self, *, series: bool = True, **settings: object) -> None:
        self.before = connections()
        mock = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "reconnect.backoff.max.ms": 10}
        with patch.object(transactional, "make_client", lambda kind, of_client: kind(dict(of_client))):
            # the mock has no other way to create a topic than to be asked about it, which our clients never do
            self.kafka = Transactional({**transactional_settings("lane", 60_000), **mock, **settings}, series=series)
        self.kafka.connect(seconds=SECONDS)
        self.kafka.fence(SECONDS)

    def transact(self, end: Callable[[float], None] | None = None, *, cutting: bool = False) -> None:
        self.kafka.begin()
        reports: list[object] = []
        self.kafka.producer.produce("orders", b"1", callback=lambda *report: reports.append(report))
        until(lambda: bool(reports), self.kafka)
        if cutting:
            self.cut()
        (end or self.kafka.commit)(SECONDS)

    def cut(self) -> None:
        until(lambda: cut(self.before) > 0, self.kafka)

    def cut_between(self) -> None:
        """Cut all connections, and wait until librdkafka has noticed each."""
        log = self.kafka._connections
        assert log
        quiet_at = monotonic() + SECONDS
        log.lost = False
        self.cut()
        while monotonic() < quiet_at:
            self.kafka.poll(0.01)
            if log.lost:
                log.lost, quiet_at = False, monotonic() + 0.5


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_a_producer_without_lost_connections_goes_on(scene: Scene) -> None:
    for end in (scene.kafka.commit, scene.kafka.abort_acknowledged, scene.kafka.commit):
        scene.transact(end)
        assert not scene.kafka.spent


def test_a_connection_lost_between_transactions_does_no_harm() -> None:
    scene = Scene()
    scene.transact()
    scene.cut_between()
    scene.transact()
    assert not scene.kafka.spent


@pytest.mark.parametrize("end", ["commit", "abort_acknowledged"])
def test_a_connection_lost_during_a_transaction_ends_the_epoch(end: str) -> None:
    scene = Scene()
    scene.transact()
    scene.transact(getattr(scene.kafka, end), cutting=True)
    assert scene.kafka.spent
    with pytest.raises(SpentEpochError) as raised:
        scene.kafka.begin()
    assert raised.value.retriable


def test_a_second_loss_within_30_s_is_noticed() -> None:
    """The library suppresses the second identical FAIL line: the first loss was between two transactions."""
    scene = Scene()
    scene.transact()
    for _ in range(2):
        scene.cut_between()
    scene.transact(cutting=True)
    assert scene.kafka.spent


@pytest.mark.parametrize("state", ["UP", "REAUTH", "AUTH_HANDSHAKE", "AUTH_REQ", "AUTH_LEGACY"])
def test_a_connection_is_lost_from_each_state_that_may_have_requests_under_way(state: str) -> None:
    """A connection that authenticates again (KIP-368) goes from UP through REAUTH and AUTH_HANDSHAKE."""
    log = ConnectionLog({})
    log.log(logging.DEBUG, "%s [%s] %s", "STATE", "lane", f"b1: Broker changed state {state} -> AUTH_REQ")
    assert not log.lost
    log.log(logging.DEBUG, "%s [%s] %s", "STATE", "lane", f"b1: Broker changed state {state} -> DOWN")
    assert log.lost


@pytest.mark.parametrize("state", ["INIT", "TRY_CONNECT", "CONNECT", "SSL_HANDSHAKE", "APIVERSION_QUERY"])
def test_a_connection_that_was_never_up_is_not_lost(state: str) -> None:
    log = ConnectionLog({})
    log.log(logging.DEBUG, "%s [%s] %s", "STATE", "lane", f"b1: Broker changed state {state} -> DOWN")
    assert not log.lost


def test_an_unanswered_call_spends_the_epoch_although_the_abort_is_acknowledged() -> None:
    """Its request may still arrive, also if librdkafka keeps the connection (``socket.max.fails``)."""

    class Silent:
        def send_offsets_to_transaction(self, *_: object) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        def abort_transaction(self, _: float) -> None:
            """Kafka acknowledges it."""

    kafka = Transactional.__new__(Transactional)
    kafka.producer, kafka.spent, kafka._unanswered = cast("Any", Silent()), True, False
    with pytest.raises(KafkaException):
        kafka.add_offsets([], None, 0.0)
    kafka.abort_acknowledged(0.0)
    assert kafka.spent


def fatal(error: KafkaError) -> None:
    """Raise it as confluent-kafka does."""
    set_error = ctypes.pythonapi.PyErr_SetObject
    set_error.argtypes, set_error.restype = [ctypes.py_object, ctypes.py_object], None
    set_error(type(error), error)


class Fenced:
    """A producer whose fatal error is raised by its next poll."""

    def poll(self, _: float) -> int:
        fatal(KafkaError(KafkaError._FENCED))
        return 0


def test_a_fatal_error_is_raised_as_an_exception() -> None:
    """Confluent-kafka raises a KafkaError, which is none: it passed each ``except`` clause, and ended the thread."""
    with pytest.raises(KafkaException) as raised:
        serve(Fenced().poll, 0.0)
    assert raised.value.args[0].code() == KafkaError._FENCED


def in_except_clause(call: Callable[[], object]) -> None:
    try:
        int("no number")
    except ValueError:
        call()


@pytest.mark.parametrize("handling", [False, True])
def test_a_fatal_error_keeps_no_producer(*, handling: bool) -> None:
    """A client that is kept runs until the process ends: its traceback and its context were never released."""

    def lost(producer: Fenced) -> None:
        with suppress(KafkaException):
            if handling:
                in_except_clause(lambda: serve(producer.poll, 0.0))
            else:
                serve(producer.poll, 0.0)

    producer = Fenced()
    kept = weakref.ref(producer)
    lost(producer)
    del producer
    gc.collect()
    assert kept() is None


def test_an_error_keeps_no_producer() -> None:
    class Failing:
        def poll(self, _: float) -> int:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    producer = Failing()
    kept = weakref.ref(producer)
    gc.disable()
    try:
        with pytest.raises(KafkaException) as raised:
            serve(producer.poll, 0.0)
        del raised, producer
        assert kept() is None
    finally:
        gc.enable()


def test_an_error_of_an_idle_producer_waits_for_its_next_transaction() -> None:
    """The thread that only takes the log must not end with it."""

    def failed(_: float) -> int:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    scene = Scene()
    scene.kafka.producer = cast("Any", SimpleNamespace(poll=failed))
    scene.kafka.take_log()


def test_a_transaction_that_has_not_ended_spends_the_epoch() -> None:
    scene = Scene()
    scene.kafka.begin()
    with pytest.raises(SpentEpochError):
        scene.kafka.begin()


def test_a_producer_outside_a_series_has_one_transaction() -> None:
    scene = Scene(series=False)
    scene.transact()
    with pytest.raises(SpentEpochError):
        scene.kafka.begin()


@pytest.mark.parametrize(("settings", "lines"), [({}, False), ({"debug": "eos"}, True), ({"log_level": 2}, False)])
def test_a_users_logger_gets_what_the_user_asked_for(
    settings: dict[str, Any], *, lines: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("mine")
    with caplog.at_level(logging.DEBUG, "mine"):
        scene = Scene(**{"log_level": 2, **settings}, logger=logger)
        scene.transact(cutting=True)
    assert scene.kafka.spent
    assert bool(caplog.records) is lines


PRODUCT = ("access", "checkback", "checkback_cli", "checkers", "conf", "gateway", "status_page", "streaming")
OF_TRANSACTIONS = re.compile(r"\.(?:(?:begin|commit|abort|init)_transactions?|send_offsets_to_transaction)\b")


def test_a_series_logs_little_while_brokers_are_away() -> None:
    """Librdkafka sorts each line into all that were not taken: at 1,500 lines a second that took more than a core."""
    lines: list[object] = []
    logger = SimpleNamespace(log=lambda *line: lines.append(line))
    away = {"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "log_level": 7, "debug": "broker"}
    kafka = Transactional({**transactional_settings("lane", 60_000), **away, "logger": logger}, series=True)
    began = monotonic()
    with pytest.raises(KafkaException):
        kafka.connect("orders", seconds=2.0)
    kafka.take_log()
    assert 0 < len(lines) < 250 * (monotonic() - began)


def test_no_other_module_calls_kafkas_transactions() -> None:
    """So none begins a second transaction of an epoch, for :class:`Transactional` guards that."""
    calling = {
        str(path.relative_to(ROOT))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if OF_TRANSACTIONS.search(path.read_text(encoding="utf-8"))
    }
    assert calling == {"checkback/kafka/librdkafka/transactional.py"}


@pytest.mark.lab
@pytest.mark.parametrize("version", VERSIONS)
def test_each_supported_version_logs_lost_connections(version: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(tmp_path)]
    subprocess.run([*pip, f"confluent-kafka=={version}"], check=True)
    files = [__file__, str(Path(__file__).with_name("test_outdated_members.py"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not lab", *files]
    place = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": place}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
