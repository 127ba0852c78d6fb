"""The running system of a fault run with gateways: two of them, clients of both kinds, a check service, a job."""

import itertools
import os
import signal
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import text

from checkback.local.kafka import free_port
from torture.effects.strike import Deed, Strike
from torture.gateways.client import REFUSED
from torture.gateways.orders import GROUP, NAME
from torture.gateways.schedule import GATEWAYS, Kind, Round
from torture.gateways.twins import Half, halves_of_orders
from torture.ground import REAL_TOPICS, Ground
from torture.lanes.sending import SendingSystem, SentBooks
from torture.oracle import Judgement
from torture.processes import Process
from torture.waiting import NotRecoveredError

_SECRET = "of the gateways of a fault run only"  # noqa: S105  (nobody else's)
_OF_EACH_KIND = 2
"""One answers for the other."""
_READY_SECONDS = 1.0


class _Books(SentBooks):
    def sent_again(self) -> list[str]:
        """Orders whose half message a client has sent to another gateway, too."""
        with self._engine.connect() as connection:
            return [name for (name,) in connection.execute(text("SELECT name FROM sent_again"))]

    def sent_of(self, kind: Kind, after: float) -> list[str]:
        """Some messages that clients of a kind have sent after a moment."""
        query = text("SELECT id FROM sent WHERE at > :after AND id LIKE :kind LIMIT 100")
        with self._engine.connect() as connection:
            return [name for (name,) in connection.execute(query, {"after": after, "kind": f"{kind}-%"})]


@dataclass
class Gateway:
    """One of the two: the process that it is now, at the same ports each time."""

    number: int
    process: Process
    http_port: int


class GatewaysSystem(SendingSystem):
    """Everything under fault."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self._starts = itertools.count(seed * 1_000)
        self.ground = ground
        self._ports = {kind: [free_port() for _ in range(GATEWAYS)] for kind in Kind}
        self._check_ports = [free_port() for _ in range(GATEWAYS)]
        self._settings: Mapping[str, str] = {}
        self.gateways = [
            Gateway(number, self._start_gateway(number), self._ports[Kind.HTTP][number]) for number in range(GATEWAYS)
        ]
        self.own_books = _Books(ground.folder, GROUP)
        self.twice: dict[str, Sequence[Half]] = {}
        """Orders that were delivered twice, each with its half messages."""
        producers = {
            f"{kind}, {number}": partial(self._start_client, kind, number)
            for kind in Kind
            for number in range(_OF_EACH_KIND)
        }
        super().__init__(ground, self.own_books, {}, producers, NAME)

    def _processes(self) -> Sequence[Process]:
        return [*super()._processes(), *(gateway.process for gateway in self.gateways)]

    def start_checks(self) -> Process:
        """See :class:`~torture.lanes.sending.SendingSystem`."""
        return Process(["checkback", "checks"], self._environment, self.ground.folder / "checks.log")

    def supervise(self) -> None:
        """As an orchestrator does.

        Raises:
            NotRecoveredError: a client says that it was refused what is in order.
        """
        super().supervise()
        for gateway in self.gateways:
            if gateway.process.exit_status is not None:
                self._note(gateway.process, f"gateway {gateway.number}")
                gateway.process = self._start_gateway(gateway.number)
        refused = self.ground.folder / REFUSED
        if refused.exists():
            raise NotRecoveredError(f"a client failed, which no fault explains: {refused.read_text(encoding='utf-8')}")

    def wait_for_all_kinds(self, after: float, seconds: float) -> None:
        """Wait until both gateways are ready, and something has come of each kind that was sent after a moment.

        Raises:
            NotRecoveredError: not in time.
        """
        for gateway in self.gateways:
            ready = partial(_ready, gateway.http_port)
            self.wait_until(ready, seconds, f"gateway {gateway.number} did not become ready")
        for kind in Kind:
            self.wait_until(
                partial(self._has_come, kind, after), seconds, f"nothing came that was sent by {kind} after the fault"
            )

    def strike_of(self, this: Round, deed: Deed) -> Strike:
        """What is ordered of a client."""
        if this.step is None or this.kind is None:
            raise ValueError(f"A round of '{this.fault}' has a step and a kind.")
        return Strike(this.step, this.number, who=this.kind, deed=deed)

    def process_of(self, pid: int) -> Process | None:
        """The client with this process id, if it is still one."""
        return next((one.process for one in self.senders if one.process.pid == pid), None)

    def harmed(self, judged: Judgement) -> bool:
        """What was delivered twice since it has two half messages, each committed, is listed, and the run goes on."""
        if set(judged.repeated) - self.twice.keys():
            halves = halves_of_orders(self.ground.broker.bootstrap_servers, self.ground.topics)
            self.twice = {name: halves.get(_order(name), []) for name in judged.repeated}
        alone = [name for name in judged.repeated if sum(half.committed for half in self.twice[name]) < 2]
        return bool(alone or judged.leaked or judged.changed)

    def twins(self) -> tuple[int, int]:
        """How many orders clients have sent to another gateway, too; and how many of these have two half messages."""
        halves = halves_of_orders(self.ground.broker.bootstrap_servers, self.ground.topics)
        sent_again = self.own_books.sent_again()
        return len(sent_again), sum(len(halves.get(name, [])) > 1 for name in sent_again)

    def _undecided(self, lost: Collection[str]) -> set[str]:
        """By the gateways' names for them."""
        halves = halves_of_orders(self.ground.broker.bootstrap_servers, self.ground.topics)
        ids = {name: halves[_order(name)][0].transaction_id for name in lost if _order(name) in halves}
        found = super()._undecided(ids.values())
        return {name for name, transaction_id in ids.items() if transaction_id in found}

    def _has_come(self, kind: Kind, after: float) -> bool:
        return any(self.consuming.came(name) is not None for name in self.own_books.sent_of(kind, after))

    def _start_gateway(self, number: int) -> Process:
        settings = {
            "GATEWAY__PORT": str(self._ports[Kind.ROCKETMQ][number]),
            "GATEWAY__HTTP_PORT": str(self._ports[Kind.HTTP][number]),
            "GATEWAY__CHECK_PORT": str(self._check_ports[number]),
            "GATEWAY__SECRETS": f'["{_SECRET}"]',
        }
        environment = {**self._environment, **{f"CHECKBACK_{name}": value for name, value in settings.items()}}
        return Process(["checkback", "gateway"], environment, self.ground.folder / f"gateway-{number}.log")

    def _start_client(self, kind: Kind, number: int) -> Process:
        folder = self.ground.folder
        ports = [str(port) for port in self._ports[kind]]
        command = ["torture.gateways.client", str(folder), kind, ",".join(REAL_TOPICS), str(next(self._starts)), *ports]
        return Process(command, {}, folder / f"client-{kind}-{number}.log")


def send_to(process: Process, number: signal.Signals) -> None:
    """A signal, unless it has ended."""
    if process.exit_status is None:
        os.kill(process.pid, number)


def _order(name: str) -> str:
    return name.partition("#")[0]


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=_READY_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False
