"""``checkback demo``, ``kafka`` and ``send``; ``bench`` and ``torture``, which come of another distribution."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from checkback.exceptions import BrokerStartError, ConfigurationError
from checkback.local import LocalKafka
from checkback.producing.producer import TransactionProducer
from checkback.signals import stop_on_signals
from checkback.wire.protocol import Message, TransactionOptions
from checkback_cli.terminal.options import BootstrapServer, ConfigFile, duration_ms
from conf import load

_GROUP = "checkback-send"


def demo(
    orders: Annotated[int, typer.Option(min=1, help="Orders the shop sends.")] = 1000,
    seed: Annotated[int, typer.Option(help="Decides which orders crash.")] = 1,
) -> None:
    """A shop sends orders, some of its processes crash, and the database and Kafka agree in the end.

    Starts a real Kafka and the real job on this machine; everything is gone afterwards.
    """
    from checkback_cli.trying.demo_shop.demonstration import demonstrate

    if not demonstrate(orders, seed):
        raise typer.Exit(1)


def kafka(
    data: Annotated[
        Path | None, typer.Option(help="Folder that keeps topics; without it they go with the broker.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 9092,
) -> None:
    """Start a real Kafka on this machine, for development, until Ctrl-C."""
    console = Console(soft_wrap=True)
    stopping = stop_on_signals()
    with console.status("Starting Kafka ...") as status:
        broker = LocalKafka(data, port=port).start(lambda said: status.update(f"{escape(said)} ..."))
    try:
        console.print(f"Kafka answers at {broker.bootstrap_servers}; its log is {broker.log_file}. Ctrl-C stops it.")
        while not stopping.wait(0.5):
            if not broker.running:
                raise BrokerStartError(f"Kafka ended by itself; see {broker.log_file}.")
    finally:
        broker.stop()


def send(
    topic: Annotated[str, typer.Argument(help="The real topic, where consumers wait.", metavar="TOPIC")],
    value: Annotated[
        str | None,
        typer.Argument(help="The message; without it each line of standard input is one.", metavar="[VALUE]"),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Its key.", show_default=False)] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", help="A header; may be given several times.", metavar="NAME=VALUE")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Of the real topic; by default the key decides.", show_default=False)
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Deliver it so much later: 30s, 10min, 2h.", show_default=False)
    ] = None,
    group: Annotated[str, typer.Option(help="Producer group.")] = _GROUP,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Send messages without a local transaction: the job delivers them. To try things, and for scripts."""
    settings = load(config, bootstrap_server)
    options = (
        TransactionOptions(deliver_at_ms=int(time.time() * 1000) + duration_ms("--delay", delay)) if delay else None
    )
    given = _headers(headers or ())
    kafka = settings.kafka
    producer = TransactionProducer(
        kafka.bootstrap_servers, group, topics=kafka.topics, kafka_options=kafka.python_client
    )
    with closing(producer):
        for text in [value] if value is not None else _lines(sys.stdin):
            message = Message(topic, os.fsencode(text), None if key is None else os.fsencode(key), given, partition)
            half = producer.send(message, options=options)
            typer.echo(f"{half.transaction_id} lies at {half.half} of {settings.kafka.topic_prefix}half, for {topic}")


def _lines(source: Iterable[str]) -> Iterator[str]:
    for line in source:
        yield line.removesuffix("\n")


def _headers(given: Iterable[str]) -> list[tuple[str, bytes]]:
    found = []
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise ConfigurationError(f"--header {one}: write NAME=VALUE.")
        found.append((name, os.fsencode(text)))
    return found


def add_lab(app: typer.Typer, panel: str) -> None:
    """Add both; where the distribution is not installed, commands that say how to install it."""
    if find_spec("lab_cli") is None:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        for name in ("torture", "bench"):
            app.command(name, rich_help_panel=panel, context_settings=anything)(_missing(name))
        return
    from lab_cli.bench import bench
    from lab_cli.torture import run_torture

    app.command("torture", rich_help_panel=panel)(run_torture)
    app.add_typer(bench, name="bench", rich_help_panel=panel)


def _missing(name: str) -> Callable[[], None]:
    def missing() -> None:
        typer.echo(f"checkback {name} is not in this installation: pip install checkback-lab", err=True)
        raise typer.Exit(2)

    missing.__doc__ = "Is not in this installation: pip install checkback-lab."
    return missing
