"""The check service on a real Kafka: what it reads in ``cb.check``, whom it asks, and the op it writes."""

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition

from checkback import CheckEndpoint
from checkback.wire.protocol import Action, Source, op_headers
from checkers import groups
from tests.checkers.service.scene import (
    ROLLBACK,
    Answerer,
    actions,
    answers,
    committed,
    put,
    request,
    running,
    serving,
    url_of,
)
from tests.checkers.serving import http
from tests.checkers.serving import serving as http_serving
from tests.place import Place, wait_until


def note(place: Place, partition: int = 0) -> str:
    """What is committed beside it: which checks wait."""
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, group_id=f"{place.topics.prefix}checkers")
    try:
        found = consumer.committed(TopicPartition(place.topics.check, partition), metadata=True)
        return "" if found is None else str(found.metadata)
    finally:
        consumer.close()


@pytest.fixture
def closed() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield url_of(bound)


@pytest.fixture
def trickling() -> Iterator[str]:
    """An endpoint that sends one byte of its answer after the other, and is never done."""
    ending = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):  # in the end the other side gives up, as it should
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ending.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        thread = threading.Thread(target=trickle, args=(taken,))
        thread.start()
        yield url_of(taken)
        ending.set()
        thread.join()


def test_a_check_is_answered_by_an_announced_endpoint(place: Place) -> None:
    asked, answerer = request(), Answerer(ROLLBACK)
    with CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics), running(place.settings()):
        put(place, asked)
        wait_until(lambda: bool(answers(place)), "an answer")
    [op] = answers(place).values()
    assert op.partition == asked.half.partition
    assert list(op.headers) == op_headers("tx", "orders", asked.half, Action.ROLLBACK, Source.CHECK)
    assert (op.key, op.value) == (None, b"")
    assert answerer.asked == [asked]


def test_an_endpoint_announced_later_is_found(place: Place) -> None:
    with running(place.settings()):
        put(place, request("early"))
        wait_until(lambda: "early" in answers(place), "the first answer")
        with CheckEndpoint(place.bootstrap_servers, "orders", Answerer(), topics=place.topics):
            # the service hears of it soon, but not at once
            def asked_again() -> bool:
                name = f"late-{len(answers(place))}"
                put(place, request(name))
                wait_until(lambda: name in answers(place), "the next answer")
                return actions(place)[name] == "commit"

            wait_until(asked_again, "a verdict")
            wait_until(lambda: actions(place)["early"] == "commit", "the one that nobody could be asked about")


def test_without_an_endpoint_the_group_is_unreachable_at_once(place: Place) -> None:
    with running(place.settings()):
        put(place, request())
        wait_until(lambda: bool(answers(place)), "an answer")
    [op] = answers(place).values()
    assert dict(op.headers)["cb-action"] == b"unreachable"
    assert op.value == b"no live endpoint of group orders for topic paid is known"


def test_an_announcement_taken_back_is_asked_no_longer(place: Place) -> None:
    answerer = Answerer()
    CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics).start().close()
    with running(place.settings()):
        put(place, request())
        wait_until(lambda: bool(answers(place)), "an answer")
    assert actions(place) == {"tx": "unreachable"}
    assert answerer.asked == []


def test_a_fixed_endpoint_is_asked_after_one_that_cannot_be_reached(place: Place, closed: str) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        settings = place.settings(checks={"endpoints": {"orders": [closed, url]}})
        assert [str(one) for one in settings.checks.endpoints["orders"]] == [closed, url]
        with running(settings):
            put(place, request())
            wait_until(lambda: bool(answers(place)), "an answer")
    assert actions(place) == {"tx": "commit"}
    assert answerer.ids() == ["tx"]


def test_nobody_else_is_asked_after_an_endpoint_without_a_verdict(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "orders", answerer) as url:
        checks = {"endpoints": {"orders": [url_of(silent), url]}, "ask_timeout": "300ms"}
        with running(place.settings(checks=checks)):
            put(place, request())
            wait_until(lambda: bool(answers(place)), "an answer")
    assert actions(place) == {"tx": "unknown"}
    assert answerer.asked == []


def test_an_endpoint_that_never_comes_to_an_end_is_given_up(place: Place, trickling: str) -> None:
    with running(place.settings(checks={"endpoints": {"orders": [trickling]}, "ask_timeout": "500ms"})):
        put(place, request())
        wait_until(lambda: bool(answers(place)), "an answer though the endpoint is never done")
    assert actions(place) == {"tx": "unknown"}


def test_a_group_that_hangs_does_not_delay_another(place: Place, silent: socket.socket) -> None:
    answerer = Answerer()
    with serving(place, "invoices", answerer) as url:
        checks = {
            "endpoints": {"orders": [url_of(silent)], "invoices": [url]},
            "ask_timeout": "30s",
            "concurrency_per_group": 4,
        }
        with running(place.settings(checks=checks)):
            put(place, *(request(f"hangs-{number}") for number in range(20)))
            connection, _ = silent.accept()
            put(place, request("quick", "invoices"))
            wait_until(lambda: bool(answers(place)), "the other group's answer")
            assert actions(place) == {"quick": "commit"}
            connection.close()


def test_more_checks_than_may_wait_wait_in_kafka(place: Place, silent: socket.socket) -> None:
    checks = {"endpoints": {"orders": [url_of(silent)]}, "ask_timeout": "30s", "queue_per_group": 3}
    with running(place.settings(checks=checks)):
        put(place, *(request(f"tx-{number}") for number in range(5)))
        wait_until(lambda: bool(note(place)), "a note of those that wait")
        assert answers(place) == {}
    listener = Answerer()
    with CheckEndpoint(place.bootstrap_servers, "orders", listener, topics=place.topics), running(place.settings()):
        wait_until(lambda: len(answers(place)) == 5, "all answers")
    assert sorted(listener.ids()) == [f"tx-{number}" for number in range(5)]


def test_a_group_that_is_away_is_asked_once_about_each_when_it_is_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by another service than the one that found it away; those of others in between are not asked again."""
    monkeypatch.setattr(groups, "_MISSED_MS", 3_600_000)  # a busy machine reads for longer than 30 s
    orders, invoices = Answerer(), Answerer()
    mixed = [request(f"tx-{number}", "orders" if number % 4 else "invoices") for number in range(400)]
    settings = place.settings(checks={"ask_timeout": "10min"})  # a busy machine, not an unknown outcome
    with CheckEndpoint(place.bootstrap_servers, "invoices", invoices, topics=place.topics):
        with running(settings):
            put(place, *mixed)
            wait_until(lambda: len(answers(place)) == 200, "an answer to 100 of each group")
            wait_until(lambda: committed(place) == 400, "all to be read")
        assert [*actions(place).values()].count("unreachable") == 100
        orders_endpoint = CheckEndpoint(place.bootstrap_servers, "orders", orders, topics=place.topics)
        with running(settings), orders_endpoint:
            decided = Counter(unreachable=0, commit=400)
            wait_until(lambda: Counter(actions(place).values()) == decided, "all answers")
    assert len(orders.ids()) == len(set(orders.ids())) == 300, "also those that were answered unreachable"
    assert len(invoices.ids()) == 100


def test_many_checks_are_answered_in_batches_each_with_its_own_op(place: Place) -> None:
    asked, answerer = [request(f"tx-{number}") for number in range(300)], Answerer()
    with CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics):
        put(place, *asked)
        with running(place.settings(checks={"ask_timeout": "10min"})):  # a busy machine, not an unknown outcome
            wait_until(lambda: len(answers(place)) == 300, "all answers")
    assert {record.value for record in answers(place).values()} == {b""}, "a remark: why it is not known"
    assert set(actions(place).values()) == {"commit"}
    assert sorted(answerer.ids()) == sorted(one.transaction_id for one in asked)


@pytest.mark.parametrize(("key", "said"), [("0123456789abcdef", "commit"), ("another key, as long", "unreachable")])
def test_a_group_with_a_key_is_asked_with_signatures(key: str, said: str, place: Place) -> None:
    answerer = Answerer()
    with (
        CheckEndpoint(place.bootstrap_servers, "orders", answerer, key="0123456789abcdef", topics=place.topics),
        running(place.settings(checks={"keys": {"orders": key}})),
    ):
        put(place, request())
        wait_until(lambda: bool(answers(place)), "an answer")
    assert actions(place) == {"tx": said}


def test_a_login_page_uses_up_no_attempt_and_is_in_op_standing_and_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        http_serving(http(b"<h1>Log in</h1>", "302 Found", "Location: /login/")) as login,
        running(place.settings(checks={"endpoints": {"orders": [login.url]}})) as service,
    ):
        put(place, *(request(f"tx-{number}") for number in range(5)))
        wait_until(lambda: len(answers(place)) == 5, "answers")
        wait_until(lambda: service.standing()["orders"].endpoints[0].state == "skipped", "the fifth failure")
        [endpoint] = service.standing()["orders"].endpoints
    reason = f"{login.url}: no check endpoint answered: status 302"
    assert set(actions(place).values()) == {"unreachable"}
    assert {op.value.decode() for op in answers(place).values()} == {reason}
    assert endpoint.reason == reason
    assert f"skipped for now: {reason}." in caplog.text


def test_an_endpoint_that_is_not_allowed_is_not_asked(place: Place) -> None:
    answerer = Answerer()
    with (
        CheckEndpoint(place.bootstrap_servers, "orders", answerer, topics=place.topics),
        running(place.settings(checks={"allowed_hosts": ["10.0.0.0/8"]})),
    ):
        put(place, request())
        wait_until(lambda: bool(answers(place)), "an answer")
    [op] = answers(place).values()
    assert dict(op.headers)["cb-action"] == b"unreachable"
    assert b"is not in checks.allowed_hosts" in op.value
    assert answerer.asked == []
