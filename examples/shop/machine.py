"""Everything the shop needs, on one machine: Kafka, topics, the job and the shop's own process."""

import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from checkback import CheckbackError
from checkback.local.supervisor import die_with_starter
from checkback.testing import LocalCluster
from examples.shop.services import SERVICES
from examples.shop.web import Order

_LIMIT_SECONDS = 120.0
"""In which nothing moves."""
_START_SECONDS = 600.0
"""The same, until the first transaction is decided: on a busy machine Spark's start alone has taken 112 s."""
_SAY_SECONDS = 15.0


class Process:
    """A Python program of ours, for as long as the ``with`` block; what it prints goes into a file."""

    def __init__(self, log: Path, environment: dict[str, str], *arguments: str) -> None:
        self._log, self._environment, self._arguments = log, {**os.environ, **environment}, arguments

    def start(self) -> None:
        """Start it; again, when it has died."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  (our own)
                [sys.executable, "-m", *self._arguments],
                env=self._environment,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
            )

    def kill(self) -> None:
        """SIGKILL, as a crash does: nothing is closed, flushed or handled."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Wait for its end."""
        return self._process.wait(_LIMIT_SECONDS)

    def must_run(self) -> None:
        """Raise with the end of what it printed, unless it runs."""
        if self._process.poll() is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace")
            raise CheckbackError(f"{' '.join(self._arguments)} has ended:\n{said[-2000:]}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self.wait()


class Machine:
    """Kafka, the job and the shop, for as long as the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self.database = f"sqlite:///{folder / 'shop.db'}"
        self.url, self._metrics_port = f"http://127.0.0.1:{_free_port()}", _free_port()
        self.folder = folder
        self._cluster = LocalCluster(SERVICES)

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka is."""
        return self._cluster.bootstrap_servers

    def __enter__(self) -> Self:
        with ExitStack() as parts:  # when one does not start, those before it are stopped
            parts.enter_context(self._cluster)
            self._job = parts.enter_context(self._job_process())
            self.shop = parts.enter_context(self._shop_process())
            self.wait_until(self._shop_answers, "the shop answers")
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def restart_shop(self) -> None:
        """What a supervisor does for a process that has died."""
        self.shop.wait()
        self.shop.start()
        self.wait_until(self._shop_answers, "the shop answers")

    def must_run(self) -> None:
        """Raise with the end of what it printed when the job or the shop has ended."""
        self._job.must_run()
        self.shop.must_run()

    def paid_orders(self) -> list[Order]:
        """What the shop's database says, which is the truth."""
        with Session(create_engine(self.database)) as session:
            return list(session.scalars(select(Order).where(Order.paid).order_by(Order.number)))

    def job_metrics(self) -> Mapping[str, float]:
        """The job's metrics, each summed up over its labels; none when it does not answer."""
        total: defaultdict[str, float] = defaultdict(float)
        for family in self._metrics():
            for sample in family.samples:
                total[sample.name] += sample.value
        return total

    def wait_until_decided(self, transactions: int) -> None:
        """Wait until the job knows what became of so many transactions."""
        self.wait_until(lambda: self._decided() >= transactions, "all transactions are decided")

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait as long as shop and job run and something moves; says each 15 s how far it is."""
        began = moved = said = time.monotonic()
        decided = self._decided()
        while not holds():
            self.must_run()
            now, before, decided = time.monotonic(), decided, self._decided()
            moved = now if decided != before else moved
            limit = _LIMIT_SECONDS if decided else _START_SECONDS
            stand = f"{decided:.0f} transactions decided" if decided else "Spark starts, or is at its first batch"
            if now - moved > limit:
                log = self.folder / "job.log"
                raise CheckbackError(
                    f"Waited in vain until {what}: nothing moved for {limit:.0f} s ({stand}). See {log}."
                )
            if now - said > _SAY_SECONDS:
                say(f"Waiting for {now - began:.0f} s until {what}: {stand}.")
                said = now
            time.sleep(0.1)

    def _job_process(self) -> Process:
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "JOB__CHECKPOINT": str(self.folder / "checkpoint"),
            "JOB__MASTER": "local[2]",
            "JOB__STATE_PARTITIONS": "2",
            "JOB__DRIVER_MEMORY": "1g",
            "HTTP__PORT": str(self._metrics_port),
            # short times, so that the example is; the defaults are RocketMQ's
            "TRANSACTIONS__TIMEOUT": "3s",
            "TRANSACTIONS__CHECK_INTERVAL": "3s",
        }
        environment = {f"CHECKBACK_{name}": value for name, value in settings.items()}
        return Process(self.folder / "job.log", environment, "checkback", "run")

    def _shop_process(self) -> Process:
        environment = {"SHOP_KAFKA": self.bootstrap_servers, "SHOP_URL": self.url, "SHOP_DATABASE": self.database}
        command = ("uvicorn", "examples.shop.crashing:app", "--port", self.url.rpartition(":")[2], "--no-access-log")
        return Process(self.folder / "shop.log", environment, *command)

    def _shop_answers(self) -> bool:
        return _get(f"{self.url}/openapi.json") is not None

    def _decided(self) -> float:
        events = (sample for family in self._metrics() for sample in family.samples)
        counts = {event.labels["event"]: event.value for event in events if event.name == "checkback_events_total"}
        return sum(counts.get(decision, 0) for decision in ("committed", "rolled_back", "parked"))

    def _metrics(self) -> list[Metric]:
        page = _get(f"http://127.0.0.1:{self._metrics_port}/metrics") or ""
        return list(text_string_to_metric_families(page))


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)  # noqa: T201  (this is what it is for)


def _get(url: str) -> str | None:
    """The page, or None as long as nobody answers."""
    try:
        return httpx.get(url).text
    except httpx.TransportError:
        return None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
