"""Serves the page with made-up facts, without a job: ``python -m tests.status_page.sample [PORT [ROWS]]``.

Nothing is read from Kafka, and nothing written: who acts sees what a job would do. The token is
``a token for the sample``.
"""

import math
import sys
import threading
import time
from collections.abc import Iterable
from typing import Self

from prometheus_client import CollectorRegistry, Counter

from checkback.operations.in_doubt import InDoubt
from checkback.operations.operator_ops import OperatorOps, Row
from checkback.operations.parked import ParkedMessage
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import UNDELIVERABLE, Action, HalfPosition
from conf import Settings
from status_page.app import site_app
from status_page.facts import (
    BatchFacts,
    EndpointFacts,
    FlowPoint,
    GroupFacts,
    HeldMessages,
    JobFacts,
    OpenOfTopic,
    PartitionBacklog,
)
from status_page.http.server import StatusServer
from status_page.http.signing_in import SigningIn
from status_page.site import Site
from status_page.transactions.deciding import Deciding
from status_page.transactions.index import Index
from status_page.transactions.lookup import Transactions
from status_page.transactions.reading import ListStanding
from status_page.transactions.transaction_story import Told
from status_page.words import why_unasked

TOKEN = "a token for the sample"  # noqa: S105  (of a page that decides nothing)
_STRETCH_MS = 30_000
_GROUPS = ("orders", "payments", "invoices", "points", "mail", "stock")
_TOPICS = ("shop.orders", "shop.payments", "shop.invoices", "shop.points", "shop.mail", "shop.stock")
_REFUSED = "connection refused"
_IDS = ("order-2026-1122-0917", "5f0c0e7c3f8e4f7ab7c4d2a1e6b95d10", "tx-αβγ-42", "payment/eu-west/7781?retry=1")


class SampleView:
    """A job that is well, but for one group whose endpoints are away."""

    def __init__(self, *, notes: tuple[str, ...] = (), quiet: bool = False) -> None:
        self._notes = notes
        self._quiet = quiet
        self._started_ms = _now_ms() - 9_300_000

    def facts(self) -> JobFacts:
        """How it stands now."""
        now_ms = _now_ms()
        number = (now_ms - self._started_ms) // 420
        batch = BatchFacts(number, now_ms - 380, 0.412, _PHASES, 0 if self._quiet else 187, 445.2)
        return JobFacts(
            job="shop",
            version="0.1.0",
            run="4f2a9c",
            host="kafka-jobs-1",
            kafka="kafka-1:9092,kafka-2:9092",
            topic_prefix="cb.",
            checkpoint="/var/lib/checkback/shop",
            started_ms=self._started_ms,
            now_ms=now_ms,
            batch=batch,
            batches=(batch,),
            backlog=(PartitionBacklog("cb.half", 0, 12), PartitionBacklog("cb.op", 0, 9)),
            held=(HeldMessages("shop.loyalty", 12, "there is no such topic", now_ms + 41_000),),
            state_bytes=734_003_200,
            counted=True,
            groups=tuple(_group(number_, name, now_ms) for number_, name in enumerate(_GROUPS)),
            flow=() if self._quiet else flow(now_ms),
            endpoints_known=True,
            notes=self._notes,
        )


_PHASES = {"read": 0.061, "state": 0.148, "write": 0.122, "commit": 0.037, "other": 0.044}


def _group(number: int, name: str, now_ms: int) -> GroupFacts:
    away = name == "payments"
    endpoints = tuple(
        EndpointFacts(f"http://{name}-{i}.shop.internal:8080/check", "skipped", 34.0, _REFUSED)
        if away or (name == "stock" and i == 2)
        else EndpointFacts(f"http://{name}-{i}.shop.internal:8080/check", "well", 3.2 + i)
        for i in range(1, 4)
    )
    oldest = (OpenOfTopic(f"shop.{name}", 21 - number, now_ms - (752_000 if away else 4_000)),)
    return GroupFacts(
        *(name, 21 - number, (21 - number) * 2_140, number % 3, 2 if away else 0, oldest, endpoints, 14 if away else 0),
        unasked=why_unasked(endpoints),
    )


def flow(now_ms: int) -> tuple[FlowPoint, ...]:
    """An hour with a wave in it, and a quarter of an hour in which a group could not be asked."""
    first = now_ms - now_ms % _STRETCH_MS - 119 * _STRETCH_MS
    points = []
    for number in range(120):
        half = round(160 + 60 * math.sin(number / 14) + 25 * math.sin(number * 2.1))
        stuck = 14 if number > 92 else 2
        points.append(
            FlowPoint(
                first + number * _STRETCH_MS,
                half,
                half - 9 - stuck,
                9,
                stuck + number % 3,
                1 if number in {101, 108} else 0,
                3 if number == 55 else 0,
            )
        )
    return tuple(points)


def fill(index: Index, rows: int, now_ms: int) -> None:
    """So many in doubt, and a few parked."""
    index.take_status((row.half, row) for row in (_in_doubt(number, now_ms) for number in range(rows)))
    index.take_parked((one.half, one.transaction_id, one) for one in _parked(now_ms))


def _in_doubt(number: int, now_ms: int) -> InDoubt:
    which = 1 if number % 5 else number % len(_GROUPS)
    age_ms = 752_000 - (number * 752_000) // max(number + 40, 1)
    half = HalfPosition(number % 8, 81_923 + number)
    name = _IDS[number % len(_IDS)] if number < len(_IDS) else f"order-2026-1122-{number:07}"
    attempt = 1 + age_ms // 60_000
    asked_ms = now_ms - 21_000 + (number * 713) % 17_000
    answer = "unknown" if attempt > 1 else ""
    return InDoubt(
        *(name, _GROUPS[which], _TOPICS[which], half, attempt, 15, now_ms - age_ms, asked_ms, answer, asked_ms + 30_000)
    )


def _parked(now_ms: int) -> Iterable[ParkedMessage]:
    given_up = "checked 15 times without a verdict"
    refused = f"{UNDELIVERABLE} shop.mail: the topic takes at most 1048588 bytes (max.message.bytes)"
    half = HalfPosition(3, 70_112)
    yield ParkedMessage(
        "payment-7716", "payments", "shop.payments", half, given_up, b"7716", b"x" * 2_140, now_ms - 86_400_000
    )
    half = HalfPosition(5, 70_340)
    yield ParkedMessage(
        "payment-7731", "payments", "shop.payments", half, given_up, None, b"x" * 812, now_ms - 7_204_000
    )
    half = HalfPosition(1, 71_002)
    yield ParkedMessage("mail-118#2", "mail", "shop.mail", half, refused, b"c-9", b"x" * 1_310_720, now_ms - 3_000_000)


class SampleOps(OperatorOps):
    """Decides like a job: what is committed or rolled back is gone a few seconds later."""

    def __init__(self, index: Index, seconds: float = 3.0) -> None:
        self._index = index
        self._seconds = seconds
        self.written: list[tuple[Row, Action, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of: object) -> None:
        pass

    def file(self, _: bytes) -> tuple[int, int, int]:
        """Keep nothing."""
        return 0, 0, 0

    def write(self, rows: Iterable[Row], action: Action, remark: str = "", _: LaneFact | None = None) -> int:
        """Take them out of the lists, later."""
        some = list(rows)
        self.written += [(row, action, remark) for row in some]
        timer = threading.Timer(self._seconds, self._judge, (some,))
        timer.daemon = True
        timer.start()
        return len(some)

    def _judge(self, rows: list[Row]) -> None:
        self._index.take_status((half, None) for _, _, half in rows)
        self._index.take_parked((half, name, None) for name, _, half in rows)


class SampleTransactions(Transactions):
    """Nobody reads anything; ``stands`` is what is said of that."""

    stands = ListStanding(complete=True)

    def standing(self) -> ListStanding:
        """As if all had been read."""
        return self.stands


def sample_site(settings: Settings, view: SampleView, rows: int = 23, seconds: float = 3.0) -> Site:
    """The parts of a page with ``rows`` transactions in doubt, and a job that judges ops after ``seconds``."""
    registry = CollectorRegistry()
    Counter("checkback_sample", "Only a sample", registry=registry).inc()
    transactions = SampleTransactions(settings)
    fill(transactions.index, rows, _now_ms())
    ops = SampleOps(transactions.index, seconds)
    deciding = Deciding(transactions.index, lambda: ops)
    signing_in = SigningIn(settings.http.token.get_secret_value())
    return Site(settings, view, transactions, registry, deciding, signing_in, story)


def story(half: HalfPosition) -> list[Told]:
    """What a transaction may have gone through."""
    now_ms = _now_ms()
    return [
        Told(now_ms - 752_000, "half message", "group payments, for shop.payments, 2,140 bytes", f"cb.half:{half}"),
        Told(now_ms - 746_000, "check 1 of 15 asked", "", "cb.check:2:9911"),
        Told(now_ms - 745_980, "answered unknown", "connection refused", f"cb.op:{half.partition}:81950"),
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)


def main(port: int = 9464, rows: int = 23) -> None:
    """Serve until interrupted."""
    settings = Settings.model_validate({"http": {"port": port, "token": TOKEN}})
    notes = ("Checks of group payments wait: all 3 endpoints skipped (connection refused). Bring its endpoints back.",)
    server = StatusServer(settings.http, site_app(sample_site(settings, SampleView(notes=notes), rows)))
    if not server.start():
        sys.exit(f"Port {port} is in use: name another one.")
    print(f"{server.url}  (token: {TOKEN})")  # noqa: T201  (this is what it is for)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
