"""Three check services, each a process, share the work; one that dies leaves it to the others."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from kafka import KafkaAdminClient

from checkback import CheckEndpoint
from checkback.local.supervisor import die_with_starter
from tests.checkers.service.scene import Answerer, answered, put, request
from tests.place import HALF_PARTITIONS, Place, wait_until

NUMBER = 120


@contextmanager
def check_service(place: Place, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    variables = {
        "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix,
        "CHECKBACK_CHECKS__HTTP_PORT": "0",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "checkback", "checks"],
            env={**os.environ, **variables},
            stdout=out,
            stderr=out,
            preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
        )
    try:
        wait_until(lambda: b"Answering checks" in log.read_bytes(), "the check service runs")
        yield process
    finally:
        process.kill()
        process.wait()


def shares_out(place: Place) -> set[str]:
    """Members of the services' group, once each of them knows what is its own; before that, none.

    One that joins later has the answers that are not committed yet asked again.
    """
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        (group,) = admin.describe_groups([f"{place.topics.prefix}checkers"]).values()
    return {one["member_id"] for one in group["members"]} if group["group_state"] == "Stable" else set()


def put_all(place: Place, name: str) -> set[str]:
    ids = [f"{name}-{number}" for number in range(NUMBER)]
    for partition in range(HALF_PARTITIONS):
        put(place, *(request(one) for one in ids[partition::HALF_PARTITIONS]), partition=partition)
    return set(ids)


def test_each_check_is_asked_once_and_what_a_dead_one_had_is_asked_by_the_others(place: Place, tmp_path: Path) -> None:
    listener = Answerer()
    with ExitStack() as running:
        running.enter_context(CheckEndpoint(place.bootstrap_servers, "orders", listener, topics=place.topics))
        services = [running.enter_context(check_service(place, tmp_path / f"{number}.log")) for number in range(3)]
        wait_until(lambda: len(shares_out(place)) == len(services), "each service knows what is its own")
        before = put_all(place, "before")
        wait_until(lambda: answered(place) >= before, "all checks are answered")
        assert Counter(listener.ids()) == dict.fromkeys(before, 1)
        for dying in services[:2]:  # one of them at least has a partition
            dying.kill()
        after = put_all(place, "after")
        wait_until(lambda: answered(place) >= after, "the third answers for all")
    assert max(Counter(listener.ids()).values()) <= 2
