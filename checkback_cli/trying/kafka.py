"""``checkback kafka``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from checkback.exceptions import BrokerStartError
from checkback.local import LocalKafka
from checkback.signals import stop_on_signals


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
