"""SIGKILL of a producer process at each step: database and delivered messages agree in the end, each exactly once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

from checkback import CheckEndpoint
from checkback.wire.protocol import ID
from tests.end_to_end.job import running
from tests.end_to_end.producer_that_crashes import COMMITTED, GROUP, Database, Listener, Step, body
from tests.place import Place, wait_until

COUNTS = SINGLE, SEVERAL = 1, 3  # messages in a transaction
WITHOUT_OP = {Step.AFTER_HALF, Step.IN_TRANSACTION, Step.AFTER_COMMIT, Step.BEFORE_OP}  # only a check decides these


def crash(place: Place, database: Path) -> dict[tuple[Step, int], int]:
    """Run a process for each step and number of messages to its end; how each ended."""
    command = [sys.executable, "-m", "tests.end_to_end.producer_that_crashes"]
    command += [place.bootstrap_servers, place.topics.prefix, place.real_topic, str(database), *map(str, COUNTS)]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True, check=True, timeout=240
    )
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {(Step(step), int(count)): int(status) for step, count, status in rows}


def test_a_producer_killed_at_any_step_leaves_database_and_messages_agreed(place: Place, spark: SparkSession) -> None:
    file = place.folder / "group.db"
    database = Database(file)
    database.create()
    listener = Listener(database)
    cases = list(product(Step, COUNTS))
    times = {"timeout": "500ms", "check_interval": "500ms", "unreachable_backoff_max": "1s"}
    with running(place, spark, transactions=times) as counts:
        ended = crash(place, file)
        # Only now that all are dead does "not in the database" mean that it never will be there.
        with CheckEndpoint(place.bootstrap_servers, GROUP, listener, topics=place.topics):
            halves = len(place.read(place.topics.half))
            wait_until(lambda: counts["committed"] + counts["rolled_back"] >= halves, what="a decision of each")
    assert ended == {case: 0 if case[0] is Step.NEVER else -signal.SIGKILL for case in cases}
    sent = database.sent()
    assert Counter(step for _, step, _ in sent) == dict.fromkeys(COMMITTED, SINGLE + SEVERAL)
    records = place.read(place.real_topic)
    delivered = Counter((dict(record.headers)[ID].decode(), record.value) for record in records)
    assert delivered == Counter((name, value) for name, _, value in sent)
    assert halves in range(len(cases) - 2, len(cases) + 1), "two were killed with their half message under way"
    asked = {request.value or request.messages[0].value for request in listener.asked}
    assert asked >= {body(step, 1, count) for step, count in product(WITHOUT_OP, COUNTS)}
