"""What ``checkback demo`` does and shows."""

import os
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from checkback.answering.endpoint import CheckEndpoint
from checkback.exceptions import CheckbackError
from checkback.producing.producer import TransactionProducer
from checkback.testing import LocalCluster
from checkback_cli.trying.demo_shop.proof import Proof, prove
from checkback_cli.trying.demo_shop.shop import GROUP, TOPIC, Fate, Shop, ShopOrder, make_orders
from conf import HttpSettings, Settings
from streaming import BatchReport, TransactionJob

_THREADS = 4
_STANDSTILL_SECONDS = 300.0
"""Without an order that is sent and a batch that decides anything; a busy machine may take as long as it likes."""
_FIRST_BATCH_SECONDS = 900.0
"""The same, until the first batch has ended: it takes minutes where others have the processor, and says nothing."""
_LOG = "spark.log"
_SHOWN = ("half", "committed", "rolled_back", "checked", "parked")


def demonstrate(orders: int, seed: int) -> bool:
    """Run the shop and show what became of its orders; whether database and topic agree."""
    console = Console()
    folder, failed = Path(tempfile.mkdtemp(prefix="checkback-demo-")), False
    try:
        proof = _run(console, folder, make_orders(orders, seed))
    except Exception:
        failed = True
        console.print(f"What Spark printed is in {folder / _LOG}", highlight=False, soft_wrap=True)
        raise
    finally:
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    _show_proof(console, proof)
    return proof.holds


def _run(console: Console, folder: Path, orders: list[ShopOrder]) -> Proof:
    with ExitStack() as parts:
        with console.status("Starting a Kafka broker (the first time its jars are fetched) ..."):
            broker = parts.enter_context(LocalCluster([TOPIC]))
        console.print(f"Kafka answers at {broker.bootstrap_servers}", highlight=False)
        shop = Shop(folder / "shop.db")
        screen = Screen(len(orders))
        job = TransactionJob(_settings(broker.bootstrap_servers, folder), screen.observe)
        starting = console.status("Starting Spark and the query (the first time its jars are fetched) ...")
        with starting, _standard_error_into(folder / _LOG):
            job.start()
        console.print(f"The job's status page, for as long as this runs: {job.page}", highlight=False)
        try:
            _show_fates(console, orders)
            _trade(console, broker.bootstrap_servers, shop, orders, job, screen)
        finally:
            with console.status("Stopping the job ..."):
                job.stop()
        with console.status("Comparing the database with a read_committed consumer ..."):
            return prove(broker.bootstrap_servers, TOPIC, shop.orders())


@contextmanager
def _standard_error_into(file: Path) -> Iterator[None]:
    """Programs started meanwhile, Spark's Java among them, keep writing there: not across the picture."""
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _settings(bootstrap_servers: str, folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "kafka": {"bootstrap_servers": bootstrap_servers},
            "job": {"checkpoint": str(folder / "checkpoint"), "master": "local[2]", "driver_memory": "1g"},
            "http": {"port": _free_port()},
            # short times, so that the demo is; the defaults are RocketMQ's
            "transactions": {"timeout": "3s", "check_interval": "3s", "timer_slack": "500ms"},
        }
    )


def _free_port() -> int:
    """The page's own, where it is free."""
    for port in (HttpSettings().port, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                return int(server.getsockname()[1])
        except OSError:
            continue
    return 0


def _trade(
    console: Console,
    bootstrap_servers: str,
    shop: Shop,
    orders: list[ShopOrder],
    job: TransactionJob,
    screen: "Screen",
) -> None:
    with (
        CheckEndpoint(bootstrap_servers, GROUP, shop),
        TransactionProducer(bootstrap_servers, GROUP, shop) as producer,
        ThreadPoolExecutor(_THREADS) as threads,
        Live(screen, console=console, refresh_per_second=8),
    ):
        sent = [threads.submit(shop.place, producer, order) for order in orders]
        while not screen.settled():
            job.wait(1)
            screen.sent(sum(future.done() for future in sent))
            if screen.stuck():
                raise CheckbackError(f"Nothing has moved for too long: {screen.stand()}.")
        for future in sent:
            future.result()


def _show_fates(console: Console, orders: list[ShopOrder]) -> None:
    fates = Counter(order.fate for order in orders)
    told = ", ".join(f"{fates[fate]} {fate}" for fate in Fate if fates[fate])
    console.print(f"The shop sends {len(orders)} orders: {told}.", highlight=False)


def _show_proof(console: Console, proof: Proof) -> None:
    table = Table(title="Database against a read_committed consumer", title_justify="left")
    table.add_column("what was found")
    table.add_column("orders", justify="right")
    rows = {
        "in the shop's database": proof.in_database,
        "delivered to the topic": proof.delivered,
        "in the database, not delivered": proof.missing,
        "delivered, not in the database": proof.invented,
        "delivered more than once": proof.repeated,
        "delivered with other bytes": proof.altered,
    }
    for what, number in rows.items():
        table.add_row(what, str(number))
    console.print(table)
    if proof.holds:
        console.print("[bold green]Exactly the orders in the database were delivered, each once.[/]")
    else:
        console.print("[bold red]Database and topic do not agree.[/]")


class Screen:
    """What the query has done so far, as a live picture; the query's thread writes, the screen's reads."""

    def __init__(self, orders: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._orders, self._sent = orders, 0
        self._clock = clock
        self._batch: int | None = None
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._moved = self._ended = clock()
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns)
        self._bars = {name: self._progress.add_task(name.replace("_", " "), total=orders) for name in _SHOWN}

    def observe(self, report: BatchReport) -> None:
        """Take in one batch."""
        with self._lock:
            self._counts.update(report.counts)
            self._batch, self._ended = report.batch, self._clock()
            if report.counts:
                self._moved = self._ended
            for name, bar in self._bars.items():
                self._progress.update(bar, completed=self._counts[name])

    def sent(self, orders: int) -> None:
        """Take in how many orders the shop has sent, or died over."""
        with self._lock:
            if orders != self._sent:
                self._sent, self._moved = orders, self._clock()

    def settled(self) -> bool:
        """Whether every order's transaction is decided."""
        with self._lock:
            return self._decided() >= self._orders

    def stuck(self) -> bool:
        """Whether nothing has moved for longer than even a busy machine needs."""
        with self._lock:
            limit = _FIRST_BATCH_SECONDS if self._batch is None else _STANDSTILL_SECONDS
            return self._clock() - self._moved > limit

    def stand(self) -> str:
        """What moves, for people."""
        with self._lock:
            seconds = f"{self._clock() - self._ended:.0f} s"
            batch = f"batch {self._batch} ended {seconds} ago" if self._batch is not None else None
            said = f"{self._sent:,} of {self._orders:,} orders sent, {self._decided():,} decided"
            return f"{said}; {batch or f'the first batch has been under way for {seconds}'}"

    def _decided(self) -> int:
        return self._counts["committed"] + self._counts["rolled_back"] + self._counts["parked"]

    def __rich__(self) -> Group:
        return Group(Text(self.stand()), self._progress)
