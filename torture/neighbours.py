"""The shop's neighbours, one process: ``python -m torture.neighbours FOLDER BOOTSTRAP PREFIX TOPIC SEED``.

Two other teams on the same installation. The check endpoint of one accepts every connection and never answers, while
some of its halves are open at any time. The other posts bursts of thousands of halves, some of them large, rolls most
of them back, and leaves a quarter to the check. What they commit must be delivered as well, and nothing else.
At SIGTERM both stop sending, and the one that hung begins to answer.
"""

import random
import signal
import socket
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, Self

from checkback import (
    CheckEndpoint,
    CheckRequest,
    EndpointAnnouncer,
    HalfMessage,
    LocalTransactionState,
    Message,
    Topics,
    TransactionChecker,
    TransactionProducer,
)
from checkback.exceptions import CheckbackError
from torture.sent import Database
from torture.shop import Fate, large_sizes

DATABASE = "neighbours"
STOPPED = "neighbours.stopped"
HANGS = "hangs"
FLOODS = "floods"
OPEN_AT_MOST = 60
"""Halves that the first keeps open at once: every one of them is checked again and again."""

_HANGS_EVERY_SECONDS = 0.5
_OPEN_SECONDS = (5.0, 40.0)
_LARGE_OFTEN = 0.03
_BURST = (1_000, 3_000)
_LARGE_IN_BURST = (3, 12)
_BETWEEN_BURSTS_SECONDS = (10.0, 25.0)
_CHECKS_AT_ONCE = 20
_FATES = {
    Fate.ROLLED_BACK: 0.6,
    Fate.NEITHER: 0.15,
    Fate.COMMITTED: 0.15,
    Fate.COMMITTED_WITHOUT_OP: 0.1,
}


class HangingServer:
    """Accepts connections, and says nothing to anybody; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, name="hanging", daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # or accept() would not return
        self._socket.close()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                self._held = [held for held in self._held if not _is_over(held)]
                self._held.append(connection)


def _is_over(connection: socket.socket) -> bool:
    """Whether the other side has given up; then the connection is closed here, too."""
    try:
        while connection.recv(65_536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    connection.close()
    return True


class _OneAtATime:
    """A transaction log on SQLite, which lets one write at a time: forty threads would wait in vain for one another."""

    def __init__(self, log: TransactionChecker) -> None:
        self._log = log
        self._lock = threading.Lock()

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """As the log says."""
        with self._lock:
            return self._log.check_local_transaction(request)


class _Open(NamedTuple):
    """A half that the hanging tenant ends at a moment of ``time.monotonic()``."""

    until: float
    half: HalfMessage
    message: Message


class Hanging:
    """The tenant whose endpoint hangs: decides late, by ops alone."""

    def __init__(self, database: Database, producer: TransactionProducer, topic: str, seed: int) -> None:
        self._database = database
        self._producer = producer
        self._topic = topic
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)
        self._open: deque[_Open] = deque()

    def run(self, stopping: threading.Event) -> None:
        """Open a half twice a second, and end those whose time has come; in the end some are left open."""
        while not stopping.wait(_HANGS_EVERY_SECONDS):
            try:
                if len(self._open) < OPEN_AT_MOST:
                    self._begin()
                while self._open and self._open[0].until <= time.monotonic():
                    self._end(self._open.popleft())
            except CheckbackError as error:  # the broker is away, or a check was answered after all
                _say(error)

    def _begin(self) -> None:
        large = self._chance.random() < _LARGE_OFTEN
        message = _message(self._chance, self._topic, HANGS, large=large)
        half = self._producer.prepare(Message(message.topic, message.value, message.key, headers=message.headers))
        self._open.append(_Open(time.monotonic() + self._chance.uniform(*_OPEN_SECONDS), half, message))

    def _end(self, this: _Open) -> None:
        if self._chance.random() < 0.5:
            self._producer.rollback(this.half)
        else:
            self._database.commit(this.half, [this.message])
            self._producer.commit(this.half)


class Flooding:
    """The tenant that posts bursts."""

    def __init__(self, database: Database, producer: TransactionProducer, topic: str, seed: int) -> None:
        self._database = database
        self._producer = producer
        self._topic = topic
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)

    def run(self, stopping: threading.Event) -> None:
        """One burst after the other, with pauses."""
        while not stopping.wait(self._chance.uniform(*_BETWEEN_BURSTS_SECONDS)):
            try:
                self._burst(stopping)
            except CheckbackError as error:  # the broker is away: the rest of the burst is not sent
                _say(error)

    def _burst(self, stopping: threading.Event) -> None:
        posted = []
        for large, fate in burst(self._chance):
            if stopping.is_set():
                break
            message = _message(self._chance, self._topic, FLOODS, large=large)
            half = self._producer.prepare(Message(message.topic, message.value, message.key, headers=message.headers))
            posted.append((half, message, fate))
        for half, message, fate in posted:
            self._end(half, message, fate)

    def _end(self, half: HalfMessage, message: Message, fate: Fate) -> None:
        if fate is Fate.ROLLED_BACK:
            self._producer.rollback(half)
        elif fate is not Fate.NEITHER:
            try:
                self._database.commit(half, [message])
            except CheckbackError:  # a check came first, and has been answered with rollback
                return
            if fate is Fate.COMMITTED:
                self._producer.commit(half)


def burst(chance: random.Random) -> list[tuple[bool, Fate]]:
    """One burst: of each half, whether it is large, and its fate."""
    count = chance.randint(*_BURST)
    large = set(chance.sample(range(count), chance.randint(*_LARGE_IN_BURST)))
    fates = chance.choices(list(_FATES), weights=list(_FATES.values()), k=count)
    return [(number in large, fate) for number, fate in enumerate(fates)]


def _message(chance: random.Random, topic: str, group: str, *, large: bool) -> Message:
    size = large_sizes(chance, 1)[0] if large else chance.randrange(400)
    return Message(topic, chance.randbytes(size), b"customer-%d" % chance.randrange(20), [("tenant", group.encode())])


def _say(error: CheckbackError) -> None:
    print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)


def main(folder: str, bootstrap_servers: str, prefix: str, topic: str, seed: str) -> None:
    """Send until SIGTERM; then answer checks of both until killed."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = Database(Path(folder), DATABASE)
    ours = Topics(prefix)
    answers = _OneAtATime(database.log)

    def producer(group: str) -> TransactionProducer:
        return TransactionProducer(bootstrap_servers, group, topics=ours, transport="confluent-kafka")

    with (
        CheckEndpoint(bootstrap_servers, FLOODS, answers, batch=_CHECKS_AT_ONCE, topics=ours),
        producer(HANGS) as hangs,
        producer(FLOODS) as floods,
    ):
        tenants = (Hanging(database, hangs, topic, int(seed)), Flooding(database, floods, topic, int(seed) + 1))
        with ExitStack() as hanging:
            server = hanging.enter_context(HangingServer())
            hanging.callback(EndpointAnnouncer(bootstrap_servers, HANGS, server.url, topics=ours).close)
            sending = [threading.Thread(target=tenant.run, args=(stopping,)) for tenant in tenants]
            for thread in sending:
                thread.start()
            for thread in sending:
                thread.join()
        with CheckEndpoint(bootstrap_servers, HANGS, answers, batch=_CHECKS_AT_ONCE, topics=ours):
            (Path(folder) / STOPPED).touch()
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
