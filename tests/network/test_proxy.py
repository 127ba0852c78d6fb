"""The proxy recognizes requests and does with them what rules say, in front of a broker that only answers."""

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from torture.network.proxy import HOST, Api, Deed, KafkaProxy, Request, Rule, until

HEAD_BYTES = 10
SECONDS = 10.0


class Answering(socketserver.ThreadingTCPServer):
    """Answers each request with its own text, twice."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), Handler)
        self.texts: list[bytes] = []


class Handler(socketserver.StreamRequestHandler):
    server: Answering

    def handle(self) -> None:
        while size := self.rfile.read(4):
            frame = self.rfile.read(*struct.unpack(">i", size))
            text = frame[HEAD_BYTES:]
            self.server.texts.append(text)
            answer = frame[4:8] + text + text
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


class Client:
    """Sends one request after another on one connection."""

    def __init__(self, proxy: KafkaProxy) -> None:
        self._socket = socket.create_connection((HOST, proxy.port), SECONDS)
        self._number = 0

    def send(self, text: bytes, api: Api = Api.END_TXN) -> None:
        self._number += 1
        frame = struct.pack(">hhih", api, 1, self._number, 0) + text
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, count: int) -> bytes:
        found = b""
        while len(found) < count and (more := self._socket.recv(count - len(found))):
            found += more
        return found

    def answer(self) -> bytes:
        """The text of the next answer; empty when the connection was closed."""
        if not (size := self.receive(4)):
            return b""
        return self.receive(*struct.unpack(">i", size))[4:]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Iterator[Answering]:
    with Answering() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(broker: Answering) -> Iterator[KafkaProxy]:
    with KafkaProxy(broker.server_address[1]) as made:
        yield made


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[Client]:
    with closing(Client(proxy)) as made:
        yield made


def test_requests_and_answers_go_through_in_order(client: Client, broker: Answering) -> None:
    for text in (b"one", b"two", b"x" * 200_000):
        client.send(text)
    assert [client.answer() for _ in range(3)] == [b"oneone", b"twotwo", b"x" * 400_000]
    assert broker.texts == [b"one", b"two", b"x" * 200_000]


@pytest.mark.parametrize("reset", [True, False])
def test_a_held_request_arrives_when_it_is_released(
    proxy: KafkaProxy, client: Client, broker: Answering, *, reset: bool
) -> None:
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, b"late", reset=reset)
    proxy.add(late)
    client.send(b"first")
    assert client.answer() == b"firstfirst"
    client.send(b"late")
    if reset:
        with pytest.raises(ConnectionResetError):
            client.answer()
    else:
        assert client.answer() == b""
    with closing(Client(proxy)) as again:
        again.send(b"late")
        assert again.answer() == b"latelate"
        assert broker.texts == [b"first", b"late"]
        assert not late.answered
        proxy.wait(late.request.arrive())
    assert late.answered
    assert broker.texts == [b"first", b"late", b"late"]


def test_a_held_request_arrives_by_itself_after_its_time(proxy: KafkaProxy, client: Client, broker: Answering) -> None:
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, seconds=0.01)
    proxy.add(late)
    client.send(b"late")
    proxy.wait(until(lambda: late.answered, SECONDS))
    assert broker.texts == [b"late"]


def test_what_a_client_sent_before_it_went_away_arrives(proxy: KafkaProxy, broker: Answering) -> None:
    with closing(Client(proxy)) as client:
        client.send(b"last words")
    proxy.wait(until(lambda: broker.texts == [b"last words"], SECONDS))


def test_a_dropped_request_never_arrives(proxy: KafkaProxy, client: Client, broker: Answering) -> None:
    proxy.add(Rule(Api.END_TXN, Deed.DROP_AND_CUT))
    client.send(b"dropped")
    with pytest.raises(ConnectionResetError):
        client.answer()
    with closing(Client(proxy)) as again:
        again.send(b"next")
        assert again.answer() == b"nextnext"
    assert broker.texts == [b"next"]


def test_a_lost_answer_belongs_to_a_request_that_arrived(proxy: KafkaProxy, client: Client, broker: Answering) -> None:
    proxy.add(Rule(Api.END_TXN, Deed.LOSE_ANSWER, reset=False))
    client.send(b"done")
    assert client.answer() == b""
    assert broker.texts == [b"done"]


def test_an_answer_is_cut_in_the_middle(proxy: KafkaProxy, client: Client) -> None:
    proxy.add(Rule(Api.END_TXN, Deed.CUT_IN_ANSWER, reset=False))
    client.send(b"12345678")
    whole = 4 + 4 + 2 * 8
    assert len(client.receive(whole)) == whole // 2


@pytest.mark.parametrize("deed", [Deed.DELAY, Deed.STALL_REQUESTS, Deed.STALL_ANSWERS, Deed.TRICKLE])
def test_a_slow_network_changes_nothing_but_the_time(proxy: KafkaProxy, client: Client, deed: Deed) -> None:
    proxy.add(Rule(Api.END_TXN, deed, b"slow", seconds=0.05))
    began = time.monotonic()
    client.send(b"slow")
    client.send(b"next")
    assert client.answer() == b"slowslow"
    assert client.answer() == b"nextnext"
    assert time.monotonic() - began >= 0.05


def test_a_rule_selects_by_api_text_and_number(proxy: KafkaProxy, client: Client) -> None:
    second = Rule(Api.END_TXN, text=b"a", number=2)
    each = Rule(Api.PRODUCE, text=b"a", without=b"b", number=0)
    proxy.add(second, each)
    sent = [b"a1", b"b", b"a2", b"a3"]
    for text in sent:
        client.send(text)
    produced = [b"a4", b"ab", b"a5", b"c"]
    for text in produced:
        client.send(text, Api.PRODUCE)
    assert [client.answer() for _ in sent + produced] == [text + text for text in sent + produced]
    assert [one.frame[HEAD_BYTES:] for one in second.requests] == [b"a2"]
    assert [one.frame[HEAD_BYTES:] for one in each.requests] == [b"a4", b"a5"]


def test_a_removed_rule_selects_nothing(proxy: KafkaProxy, client: Client) -> None:
    first, other = Rule(Api.END_TXN, number=0), Rule(Api.END_TXN, number=0)
    proxy.add(first, other)
    proxy.remove(first)
    client.send(b"one")
    assert client.answer() == b"oneone"
    proxy.clear()
    client.send(b"two")
    assert client.answer() == b"twotwo"
    assert (len(first.requests), len(other.requests)) == (0, 1)


def test_a_step_of_a_rule_comes_before_its_request(proxy: KafkaProxy, client: Client, broker: Answering) -> None:
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT)
    proxy.add(late)
    client.send(b"late")
    with pytest.raises(ConnectionResetError):
        client.answer()

    async def release(_request: Request) -> None:
        await late.request.arrive()

    proxy.add(Rule(Api.PRODUCE, before=release))
    with closing(Client(proxy)) as other:
        other.send(b"next", Api.PRODUCE)
        assert other.answer() == b"nextnext"
    assert broker.texts == [b"late", b"next"]


def test_a_step_that_fails_is_kept_and_costs_the_connection(proxy: KafkaProxy, client: Client) -> None:
    async def never(_request: Request) -> None:
        await until(lambda: False, 0.01)

    proxy.add(Rule(Api.END_TXN, before=never))
    client.send(b"one")
    with pytest.raises(ConnectionResetError):
        client.answer()
    assert [type(error) for error in proxy.failures] == [TimeoutError]


def test_without_a_broker_the_client_is_cut_off() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    # it may be cut off before it knows that it was connected
    with KafkaProxy(port) as proxy, pytest.raises(ConnectionResetError), closing(Client(proxy)) as client:
        client.answer()


@pytest.mark.parametrize(
    ("api", "version", "answer"),
    [
        (Api.END_TXN, 1, b"\0\0\0\7" + bytes(4) + b"\0\x2f"),
        (Api.END_TXN, 3, b"\0\0\0\7\0" + bytes(4) + b"\0\x2f\0"),
        (Api.ADD_OFFSETS_TO_TXN, 0, b"\0\0\0\7" + bytes(4) + b"\0\x2f"),
        (Api.INIT_PRODUCER_ID, 2, b"\0\0\0\7\0" + bytes(4) + b"\0\x2f" + bytes(11)),
    ],
)
def test_the_error_code_of_an_answer_is_read(api: Api, version: int, answer: bytes, proxy: KafkaProxy) -> None:
    request = Request(api, version, 7, b"", connection=None)  # type: ignore[arg-type]  # not used
    assert request.error_code is None
    request.answer = answer
    assert request.error_code == 47
