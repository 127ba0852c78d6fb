"""Runs all cases with all clients of this machine against a real job, and prints what was seen.

python -m tests.gateway.clients.all [--clients java,go] [--cases commit,crash]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkback.testing.cluster import LocalCluster
from tests.gateway.clients import cases, installed
from tests.gateway.clients.gateways import RunningGateway
from tests.gateway.clients.installed import Client, NotHereError

JOB = {"TRANSACTIONS__TIMEOUT": "3s", "TRANSACTIONS__CHECK_INTERVAL": "5s"}


@contextmanager
def world(folder: Path) -> Iterator[tuple[LocalCluster, RunningGateway]]:
    """Kafka, a job, and a gateway."""
    with (
        LocalCluster([cases.TOPIC]) as cluster,
        cluster.running_job(JOB),
        RunningGateway(cluster.bootstrap_servers, folder) as gateway,
    ):
        yield cluster, gateway


def one(place: cases.Place, name: str) -> tuple[bool, str]:
    """Whether a case went well, and what was seen."""
    try:
        return True, cases.ALL[name](place)
    except Exception as error:  # noqa: BLE001  (each is a row of the table)
        return False, f"{type(error).__name__}: {error}"


def main() -> int:
    """The table; 1 where a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default=",".join(installed.ALL))
    parser.add_argument("--cases", default=",".join(cases.ALL))
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="checkback-clients-") as temporary:
        folder = Path(temporary)
        there: list[Client] = []
        for name in given.clients.split(","):
            (folder / name).mkdir()
            try:
                there.append(installed.ALL[name](folder / name))
            except NotHereError as error:
                print(f"| {name} | - | not run: {error} |", flush=True)
        with world(folder) as (cluster, gateway):
            for client in there:
                place = cases.Place(cluster, gateway, client, folder)
                for name in given.cases.split(","):
                    began = time.monotonic()
                    well, said = one(place, name)
                    failed += not well
                    mark = "yes" if well else "NO"
                    print(
                        f"| {client.name} | {name} | {mark} | {said} | {time.monotonic() - began:.0f} s |", flush=True
                    )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
