"""``checkback read``."""

from typing import Annotated, Any

import typer

from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.kafka.topic_reading import partitions_of, records_as_they_come
from checkback.signals import stop_on_signals
from checkback.wire.message_json import to_base64
from checkback.wire.printable import printable
from checkback_cli.terminal.listing import show_objects
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, duration_ms
from checkback_cli.terminal.reading import AwayNotice, reading
from conf import load


def read(
    topic: Annotated[str, typer.Argument(help="The topic.", metavar="TOPIC")],
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, help="Stop after this number of messages; 0: never.")
    ] = 0,
    wait: Annotated[
        str | None,
        typer.Option(help="End with status 1 when no message has come for this long: 30s, 5min.", show_default=False),
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Only messages that come from now on.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Print the messages of a topic as a read_committed consumer gets them, from its beginning until Ctrl-C.

    Each line has partition:offset, key, value, and headers; "-" is null. What is not UTF-8 is shown in base64, after
    "base64:", and control characters as escapes. --json has bytes that are not UTF-8 as {"base64": "..."}.
    """
    kafka = load(config, bootstrap_server).kafka
    idle_ms = duration_ms("--wait", wait) if wait else None
    stopping = stop_on_signals()
    with reading(kafka) as consumer:
        if not partitions_of(consumer, topic):
            name = printable(topic)
            raise ConfigurationError(f"Kafka has no topic {name}: 'checkback topics create {name}' makes it.")
        found = 0
        notice = AwayNotice(consumer)
        for record in records_as_they_come(
            consumer, topic, stopping.is_set, new=new, idle_ms=idle_ms, idle=notice.look
        ):
            if as_json:
                show_objects([_object(record)])
            else:
                typer.echo(_as_line(record))
            found += 1
            if found == count:
                return
    if wait and not stopping.is_set():
        raise CheckbackError(f"No message has come to {topic} within {wait}; {found} had come before.")


def _as_line(record: Any) -> str:
    headers = " ".join(f"{printable(name)}={_text(value)}" for name, value in record.headers)
    return "\t".join((f"{record.partition}:{record.offset}", _text(record.key), _text(record.value), headers))


def _object(record: Any) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time_ms": record.timestamp,
        "key": spelled(record.key),
        "value": spelled(record.value),
        "headers": [[name, spelled(value)] for name, value in record.headers],
    }


def spelled(content: bytes | None) -> str | dict[str, str | None] | None:
    """Bytes as JSON has them: text where they are UTF-8, else ``{"base64": "..."}``."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return {"base64": to_base64(content)}


def _text(content: bytes | None) -> str:
    found = spelled(content)
    if isinstance(found, dict):
        return f"base64:{found['base64']}"
    return "-" if found is None else printable(found)
