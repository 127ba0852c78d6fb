"""A fault run with the network: in each round one kind of request is disturbed again and again, every two seconds."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice, takewhile

from checkback.local.kafka import free_port
from checkback.wire.lanes import ID_PREFIX
from torture.lanes.rounds import RoundDone, RoundsReport, torture_sending
from torture.network.broker import kafka_behind
from torture.network.proxy import Api, Deed, KafkaProxy, Rule
from torture.network.system import NetworkSystem
from torture.waiting import GIVE_UP_SECONDS

DISTURBANCES = 5
"""In each round."""
EVERY_SECONDS = 2.0
_COME_SECONDS = 60.0
"""For a request of the kind to come."""
_LEAST_LATE_MS, _MOST_LATE_MS = 5, 1_000
_SLOW_SECONDS = 3.0

Card = tuple[tuple[Api, Deed], ...]
"""The next request of each of these kinds is disturbed. Twice the same: a request, and its first repetition."""

_LATE = Deed.HOLD_AND_CUT
DECK: tuple[Card, ...] = (
    ((Api.END_TXN, _LATE),),
    ((Api.ADD_OFFSETS_TO_TXN, _LATE),),
    ((Api.END_TXN, _LATE), (Api.END_TXN, _LATE)),
    ((Api.TXN_OFFSET_COMMIT, _LATE),),
    ((Api.END_TXN, _LATE),),
    ((Api.ADD_PARTITIONS_TO_TXN, _LATE),),
    ((Api.END_TXN, Deed.LOSE_ANSWER),),
    ((Api.PRODUCE, _LATE),),
    ((Api.END_TXN, _LATE),),
    ((Api.END_TXN, Deed.DROP_AND_CUT), (Api.INIT_PRODUCER_ID, _LATE)),
    ((Api.END_TXN, Deed.CUT_IN_ANSWER),),
    ((Api.TXN_OFFSET_COMMIT, Deed.LOSE_ANSWER), (Api.END_TXN, _LATE)),
    ((Api.PRODUCE, Deed.LOSE_ANSWER),),
    ((Api.ADD_OFFSETS_TO_TXN, _LATE), (Api.END_TXN, _LATE)),
    ((Api.END_TXN, Deed.STALL_REQUESTS),),
    ((Api.END_TXN, Deed.TRICKLE),),
)


@dataclass(frozen=True)
class Round:
    """One card, and the dice for what is left open: how late, and whether a connection ends by RST or by FIN."""

    number: int
    seed: int
    card: Card
    delay_seconds: float = 0.0

    def __str__(self) -> str:
        requests = ", then ".join(f"{api.name.lower()} {deed}" for api, deed in self.card)
        return f"{requests} (seed {self.seed})"

    def rules(self, chance: random.Random) -> list[Rule]:
        """For one disturbance."""
        return [
            Rule(
                *(api, deed, ID_PREFIX.encode()),
                seconds=chance.randint(_LEAST_LATE_MS, _MOST_LATE_MS) / 1000 if deed is _LATE else _SLOW_SECONDS,
                reset=chance.random() < 0.5,
            )
            for api, deed in self.card
        ]


@dataclass
class NetworkReport(RoundsReport):
    """A whole run."""

    disturbed: int = 0
    """Requests."""
    transactions: dict[str, int] = field(default_factory=dict)
    """By what their producers were told."""
    torn: list[str] = field(default_factory=list)
    """Transactions of which some messages can be read, and others cannot."""

    errors: dict[str, int] = field(default_factory=dict)
    """Why transactions did not begin, and how many."""
    last: Round | None = None
    """The last round that was begun."""

    @property
    def again(self) -> str:
        """The command that does the last round alone."""
        return f"checkback torture --network --rounds 1 --seed {self.last.seed if self.last else self.seed}"


def schedule(seed: int) -> Iterator[Round]:
    """Rounds without end; the first one of the next seed is the second one of this."""
    for number in count(1):
        own = seed + number - 1
        yield Round(number, own, DECK[own % len(DECK)])


def torture_network(
    seed: int,
    rounds: int | None = None,
    tell: Callable[[RoundDone], None] = lambda _round: None,
    *,
    transactions: int | None = None,
) -> NetworkReport:
    """Disturb so many rounds, or until so many transactions were ended; without a number for one deck."""
    report = NetworkReport(seed)
    drawn: Iterator[Round] = schedule(seed)
    if transactions is not None:
        drawn = takewhile(lambda _: sum(report.transactions.values()) < transactions, drawn)
    if rounds is not None or transactions is None:
        drawn = islice(drawn, rounds or len(DECK))

    def do(system: NetworkSystem, this: Round) -> tuple[float, bool]:
        report.last = this
        report.disturbed += _disturb(system, this)
        seconds = system.wait_for_all()
        report.transactions = system.books.counts
        return seconds, False

    def look_back(system: NetworkSystem) -> None:
        report.transactions, report.torn, report.errors = system.books.counts, system.torn(), dict(system.books.errors)

    with KafkaProxy(free_port()) as proxy:
        torture_sending(
            *(report, lambda ground: NetworkSystem(ground, proxy, seed), drawn, do, tell, look_back),
            broker=lambda folder: kafka_behind(proxy, folder, start_seconds=GIVE_UP_SECONDS),
        )
    return report


def _disturb(system: NetworkSystem, this: Round) -> int:
    """Disturb the next requests of the card, every two seconds; gives how many requests were."""
    chance = random.Random(this.seed)  # noqa: S311  (dice, no secret)
    disturbed = 0
    for _ in range(DISTURBANCES):
        again_at = time.monotonic() + EVERY_SECONDS
        rules = this.rules(chance)
        system.proxy.add(*rules)
        system.wait_until(
            lambda: all(rule.requests for rule in rules),  # noqa: B023  (called before the next ones)
            *(_COME_SECONDS, f"no request of a lane came for '{this}'"),
        )
        system.proxy.remove(*rules)
        disturbed += len(rules)
        time.sleep(max(0.0, again_at - time.monotonic()))
    return disturbed
