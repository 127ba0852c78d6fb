"""``checkback rejected``."""

import time

from checkback.operations.rejected import rejected_records
from checkback.operations.times import said_time
from checkback_cli.terminal.listing import note_missing, show_rows
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, Last, OfGroup, Since
from checkback_cli.terminal.reading import reading
from conf import load

_NAMES = ("rejected", "record", "reason", "transaction", "group", "topic", "action")


def rejected(
    group: OfGroup = None,
    since: Since = None,
    limit: Last = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the half messages and ops that the job has not taken, with the reason of each.

    A rejected half message is lost: nobody delivers it, and its producer does not hear of it. Their content is in
    cb.rejected, and 'record' says where the original lies.
    """
    kafka = load(config, bootstrap_server).kafka
    since_ms = 0 if since is None else max(0, int(time.time() * 1000) - since)
    topics = kafka.topics
    with reading(kafka) as consumer:
        found = list(rejected_records(consumer, topics, since_ms))
        rows = [
            (said_time(one.time_ms), one.came_from, one.reason, one.transaction_id, one.group, one.topic, one.action)
            for one in found
            if group in {None, one.group}
        ]
    note_missing(group, (one.group for one in found))
    show_rows(_NAMES, rows if limit is None else rows[-limit:], as_json=as_json, by="reason")
