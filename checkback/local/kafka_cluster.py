"""Several real Kafka brokers on this machine, each of which may be killed."""

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from checkback.local.kafka import LocalKafka, Quorum, free_port, new_cluster_id

_PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""As Kafka's own defaults are."""


class LocalKafkaCluster:
    """Three brokers, or more, that live as long as the ``with`` block: each is a controller, too.

    With one of three killed the cluster goes on; with two it waits for one of them. ``data``, ``heap_megabytes`` (of
    each), ``start_seconds`` and ``properties`` are those of :class:`LocalKafka`.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        brokers: int = 3,
        heap_megabytes: int = 256,
        start_seconds: float = 300.0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = data is None
        self._folder = data or Path(tempfile.mkdtemp(prefix="checkback-kafka-"))
        ports: dict[int, int] = {}
        while len(ports) < brokers:
            if (port := free_port()) not in ports.values():
                ports[len(ports) + 1] = port
        quorum = Quorum(new_cluster_id(), ports)
        self.brokers = [
            LocalKafka(
                self._folder / str(node),
                heap_megabytes=heap_megabytes,
                start_seconds=start_seconds,
                properties={**_PROPERTIES, **(properties or {})},
                joins=quorum,
                node=node,
            )
            for node in ports
        ]

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each broker, for any Kafka client."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self) -> Self:
        """Start all brokers that do not run, and return when they answer.

        Raises:
            BrokerStartError, InstallationError: as :meth:`LocalKafka.start`; none is left running then.
        """
        stopped = [broker for broker in self.brokers if not broker.running]
        try:
            with ThreadPoolExecutor(max(1, len(stopped))) as pool:  # none answers before there is a majority
                list(pool.map(LocalKafka.start, stopped))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers, and wait for their end."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(LocalKafka.stop, self.brokers))
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
