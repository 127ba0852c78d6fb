"""What ``checkback demo`` does and shows."""

import os
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from checkback.endpoint import CheckEndpoint
from checkback.exceptions import CheckbackError
from checkback.producer import TransactionProducer
from checkback.testing import LocalCluster
from checkback_cli.demo_shop.proof import Proof, prove
from checkback_cli.demo_shop.shop import GROUP, TOPIC, Fate, Order, Shop, make_orders
from conf import HttpSettings, Settings
from streaming import BatchReport, TransactionJob

_THREADS = 4
_STANDSTILL_SECONDS = 120.0
"""Without a batch that decides anything; a busy machine may take as long as it likes."""
_SHOWN = ("half", "committed", "rolled_back", "checked", "parked")


def demonstrate(orders: int, seed: int) -> bool:
    """Run the shop and show what became of its orders; whether database and topic agree."""
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="checkback-demo-"))
    try:
        proof = _run(console, folder, make_orders(orders, seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _show_proof(console, proof)
    return proof.holds


def _run(console: Console, folder: Path, orders: list[Order]) -> Proof:
    with ExitStack() as parts:
        with console.status("Starting a Kafka broker (the first time its jars are fetched) ..."):
            broker = parts.enter_context(LocalCluster([TOPIC]))
        console.print(f"Kafka answers at {broker.bootstrap_servers}", highlight=False)
        shop = Shop(folder / "shop.db")
        screen = _Screen(len(orders))
        job = TransactionJob(_settings(broker.bootstrap_servers, folder), screen.observe)
        starting = console.status("Starting Spark and the query (the first time its jars are fetched) ...")
        with starting, _standard_error_into(folder / "spark.log"):
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
    orders: list[Order],
    job: TransactionJob,
    screen: "_Screen",
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
            if screen.standstill_seconds() > _STANDSTILL_SECONDS:
                raise CheckbackError(f"No transaction was decided for {_STANDSTILL_SECONDS:.0f} s, and some are open.")
        for future in sent:
            future.result()


def _show_fates(console: Console, orders: list[Order]) -> None:
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


class _Screen:
    """What the query has done so far, as a live picture; the query's thread writes, the screen's reads."""

    def __init__(self, orders: int) -> None:
        self._orders = orders
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._moved = time.monotonic()
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
            if report.counts:
                self._moved = time.monotonic()
            for name, bar in self._bars.items():
                self._progress.update(bar, completed=self._counts[name])

    def settled(self) -> bool:
        """Whether every order's transaction is decided."""
        with self._lock:
            decided = self._counts["committed"] + self._counts["rolled_back"] + self._counts["parked"]
        return decided >= self._orders

    def standstill_seconds(self) -> float:
        """Since the last batch that did something."""
        with self._lock:
            return time.monotonic() - self._moved

    def __rich__(self) -> Group:
        return Group(self._progress)
