"""A broker with two addresses: its own, and that of a proxy in front of it."""

from pathlib import Path
from typing import Any

from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from torture.network.proxy import HOST, KafkaProxy


def kafka_behind(proxy: KafkaProxy, folder: Path | None = None, **more: Any) -> LocalKafka:
    """A broker to which clients of the proxy's address go through the proxy; the proxy must be listening.

    ``more``: see :class:`~checkback.local.LocalKafka`.
    """
    direct, controller = free_port(), free_port()
    own, proxied = f"PLAINTEXT://{HOST}:{direct}", f"PROXIED://{HOST}"
    properties = {
        "listeners": f"{own},{proxied}:{proxy.upstream},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"{own},{proxied}:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    return LocalKafka(folder, port=direct, properties=properties, **more)
