"""``checkback send``."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated

import typer

from checkback.exceptions import ConfigurationError
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import Message, TransactionOptions
from checkback_cli.terminal.options import BootstrapServer, ConfigFile, duration_ms
from conf import load

_GROUP = "checkback-send"


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
