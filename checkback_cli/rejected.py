"""``checkback rejected``."""

from contextlib import closing
from typing import Annotated

import typer

from checkback.protocol import Topics
from checkback.rejected import rejected_records
from checkback.topic_reading import reading_consumer
from checkback_cli.listing import show_rows
from checkback_cli.options import AsJson, BootstrapServer, ConfigFile
from checkback_cli.times import said_time
from conf import load

_NAMES = ("rejected", "record", "reason", "transaction", "group", "topic", "action")


def rejected(
    group: Annotated[str | None, typer.Option(help="Only those of this producer group.", show_default=False)] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the half messages and ops that the job has not taken, with the reason of each.

    A rejected half message is lost: nobody delivers it, and its producer does not hear of it. Their content is in
    cb.rejected, and 'record' says where the original lies.
    """
    kafka = load(config, bootstrap_server).kafka
    topics = Topics(kafka.topic_prefix)
    with closing(reading_consumer(kafka.bootstrap_servers, options=kafka.python_client)) as consumer:
        rows = [
            (said_time(one.time_ms), one.came_from, one.reason, one.transaction_id, one.group, one.topic, one.action)
            for one in rejected_records(consumer, topics)
            if group in {None, one.group}
        ]
    show_rows(_NAMES, rows, as_json=as_json)
