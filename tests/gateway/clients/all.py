"""Runs all cases with all clients of this machine against a real job, side by side, and prints what was seen.

python -m tests.gateway.clients.all [--clients java,go] [--cases commit,crash]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checkback.testing.cluster import LocalCluster
from checkback.wire.protocol import Topics
from tests.gateway.clients import cases, installed
from tests.gateway.clients.gateways import RunningGateway
from tests.gateway.clients.installed import Client, NotHereError
from tests.place import configure_topic

JOB = {"TRANSACTIONS__TIMEOUT": "3s", "TRANSACTIONS__CHECK_INTERVAL": "5s"}
_LARGEST = str(8 << 20)


def tried(cluster: LocalCluster, client: Client, names: Sequence[str], folder: Path) -> bool:
    """Runs cases with a gateway and a topic of the client's own; whether all went well."""
    well = True
    with RunningGateway(cluster.bootstrap_servers, folder) as gateway:
        place = cases.Place(cluster, gateway, client, folder)
        for topic in (place.topic, f"shop.{place.topic}"):
            cluster.create_topic(topic)
        configure_topic(cluster.bootstrap_servers, place.topic, max_message_bytes=_LARGEST)
        for name in names:
            began = time.monotonic()
            try:
                mark, said = "yes", cases.ALL[name](place)
            except Exception as error:  # noqa: BLE001  (a row of the table, like any other)
                mark, said, well = "NO", f"{type(error).__name__}: {error}", False
            row = (client.name, name, mark, said, f"{time.monotonic() - began:.0f} s")
            print("|", " | ".join(row), "|", flush=True)
    return well


def main() -> int:
    """The table; 1 where a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default=",".join(installed.ALL))
    parser.add_argument("--cases", default=",".join(cases.ALL))
    given = parser.parse_args()
    there: list[Client] = []
    with tempfile.TemporaryDirectory(prefix="checkback-clients-") as temporary, LocalCluster() as cluster:
        for name in given.clients.split(","):
            folder = Path(temporary) / name
            folder.mkdir()
            try:
                there.append(installed.ALL[name](folder))
            except NotHereError as error:
                print(f"| {name} | - | not run | {error} | |", flush=True)
        configure_topic(cluster.bootstrap_servers, Topics().half, max_message_bytes=_LARGEST)
        with cluster.running_job(JOB), ThreadPoolExecutor(max(1, len(there))) as pool:
            run = [pool.submit(tried, cluster, one, given.cases.split(","), one.folder) for one in there]
            return 0 if all(one.result() for one in run) else 1


if __name__ == "__main__":
    sys.exit(main())
