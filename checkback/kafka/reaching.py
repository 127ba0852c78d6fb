"""Reaching a Kafka: how long Checkback's clients try, and what they say when none answers."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from checkback.exceptions import KafkaUnreachableError

CONNECT_MS = 6_000
"""When a client is made. kafka-python's own is 30 s, in which people at a terminal begin to doubt themselves."""
RECONNECT_MS = 1_000
"""Longest pause before a broker that was away is tried again.

kafka-python's own is 30 s, librdkafka's 10 s: after an outage everybody would wait for as long.
"""
IDLE_MS = 180_000
"""A connection that has been idle for so long is closed by its client: load balancers drop it silently, some after
4 min. The next request would wait for its time limit, and often be the last one that its caller has time for."""
REQUEST_MS = 10_000
"""Longest wait for one answer; librdkafka's own is 60 s, or as long as a transaction may take."""
_LOOK_SECONDS = 1.0


def longest_pause_ms(options: Mapping[str, Any], shortest: str) -> int:
    """:data:`RECONNECT_MS`, or the shortest pause that a user's options name, where that is longer.

    ``shortest`` is the client's name for it. librdkafka refuses a longest pause below the shortest.
    """
    with suppress(ValueError, TypeError):  # what is not a number, the client itself refuses
        return max(RECONNECT_MS, int(options.get(shortest, 0)))
    return RECONNECT_MS


def request_ms(deadline_ms: int) -> int:
    """Longest wait for one answer within a deadline: it leaves time for another try on a new connection."""
    return max(10, min(REQUEST_MS, deadline_ms // 2))  # librdkafka takes no less


def no_kafka(bootstrap_servers: str, error: object, setting: str = "") -> KafkaUnreachableError:
    """What to raise when a client could not be made; looks whether there is anybody at all.

    ``setting``: where the address came from, when it was one.

    Clients hide a refused password, or TLS on one side only, behind a time-out.
    """
    said = f"No Kafka answers at {bootstrap_servers}{f' ({setting})' if setting else ''}: {error}."
    if any(_listens(server.strip()) for server in bootstrap_servers.split(",")):
        said += (
            " Somebody listens there: if it is Kafka, look whether protocol, certificates and password are those that "
            "it wants (kafka.security, or the kafka_options of a producer)."
        )
    return KafkaUnreachableError(said)


def _listens(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS):
            return True
    except (OSError, ValueError, OverflowError):
        return False
