"""``python -m streaming.prepare [KIND ...]``: make Spark's classes ready for the job, and say where they are.

To be done again after an update: a job does not use an archive that does not fit.

KIND is that of a table that messages go to, ``delta`` or ``postgresql``. It needs what ``checkback kafka`` needs.
"""

import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Collection
from typing import Any

from pyspark import SparkContext

from checkback import Message, TransactionProducer
from checkback.exceptions import InstallationError
from checkback.local.jars import TABLES
from checkback.signals import leave_on_signals
from checkback.testing import LocalCluster
from conf import Settings
from streaming.class_archive import make_archive
from streaming.java_classes import login_module
from streaming.job import TransactionJob
from streaming.session import build_session

_DELIVERED_SECONDS = 240.0
_EXIT_SECONDS = 120.0


def record(archive: str, kinds: Collection[str]) -> None:
    """Run a job on a Kafka of its own until it has delivered a message, and have its Java write the archive."""
    with LocalCluster(["orders"]) as cluster:
        servers = cluster.bootstrap_servers
        job = {"master": "local[2]", "state_partitions": 2, "checkpoint": str(cluster.folder / "checkpoint")}
        made = {"kafka": {"bootstrap_servers": servers}, "job": job, "http": {"port": 0}}
        settings = Settings.model_validate(made)
        spark = build_session(settings, kinds, [f"-XX:ArchiveClassesAtExit={archive}"])
        with TransactionJob(settings, spark=spark), TransactionProducer(servers, "archive") as producer:
            producer.send(Message("orders", b""))
            cluster.wait_for("orders", 1, _DELIVERED_SECONDS)
        spark.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001  (the only way to its process)
    gateway.shutdown()
    gateway.proc.stdin.close()
    if status := gateway.proc.wait(_EXIT_SECONDS):
        sys.exit(f"Java ended with status {status} while it wrote them.")


def main() -> None:
    """Make the archive; exit status 1 with one sentence when that fails."""
    parser = ArgumentParser("python -m streaming.prepare", description="Make Spark's classes ready for the job.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="of tables that messages go to")
    parser.add_argument("--into", help=SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - TABLES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: only {' and '.join(TABLES)} have classes of their own")
    if arguments.into:
        # a KeyboardInterrupt while PySpark waits for its Java removes the folder in which that answers: it never ends
        leave_on_signals()
        record(arguments.into, arguments.kinds)
        return
    try:
        _say("A job runs on a Kafka of its own, and its Java keeps its classes (half a minute, on a busy machine more)")
        login_module()
        _say(f"Spark's classes are ready in {make_archive(arguments.kinds, again=True)}")
    except InstallationError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _say(what: str) -> None:
    print(f"==> {what}", flush=True)  # noqa: T201  (what this command says)


if __name__ == "__main__":
    main()
