"""A job's facts, and what serves them as the job's page does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from status_page.facts import (
    BatchFacts,
    EndpointFacts,
    FlowPoint,
    GroupFacts,
    HeldBackPartition,
    HeldMessages,
    JobFacts,
    OpenOfTopic,
    PartitionBacklog,
)
from tests.checkers.serving import http, serving

NOW = 1_767_225_600_000

FACTS = JobFacts(
    *("checkback", "0.1.0", "run-1", "host-1", "kafka:9092", "cb.", "/data", NOW - 7_500_000, NOW),
    batch=BatchFacts(4711, NOW - 3_000, 0.52, records=1_200, records_per_second=2_307.7),
    backlog=(PartitionBacklog("cb.half", 0, 7), PartitionBacklog("cb.op", 1, 0)),
    held_back=(HeldBackPartition("cb.op", 3, 40.0),),
    held=(HeldMessages("shop.late", 1_500, "there is no such topic.", NOW + 40_000),),
    counted=True,
    groups=(
        GroupFacts(
            "orders",
            open=1_234,
            parked=2,
            topics=(OpenOfTopic("shop.orders", 1_234, NOW - 7_200_000),),
            endpoints=(
                EndpointFacts("http://a:1/", "well", 3.0),
                EndpointFacts("http://b:1/", "skipped", None, "connection refused"),
            ),
            waiting=9,
        ),
        GroupFacts("quiet"),
    ),
    flow=(FlowPoint(NOW - 60_000, half=300, committed=290), FlowPoint(NOW - 30_000, half=3)),
    notes=("Group orders has not been reached for 5 min.",),
    in_doubt=5,
    parked=2,
)


def bodies(facts: JobFacts = FACTS, **fields: Any) -> tuple[bytes, bytes]:
    """What the job's API says of itself, and of its groups."""
    said = asdict(replace(facts, **fields))
    groups = [{**group, "in_doubt": 5} for group in said["groups"]]
    in_doubt = [
        {"group": group["group"], "topic": topic, "number": number, "unasked": unasked}
        for group in said["groups"]
        for topic, number, unasked in (("shop.orders", 4, ""), ("shop.late", 1, "no working endpoint for shop.late"))
    ]
    of_groups = {"groups": groups, "in_doubt": in_doubt}
    return json.dumps({**said, "lists": {}}).encode(), json.dumps(of_groups).encode()


@contextmanager
def page(answers: tuple[bytes, bytes] | bytes, status: str = "200 OK") -> Iterator[str]:
    """Serves them as the job's page does; one for both where there is one."""
    of_job, of_groups = (answers, answers) if isinstance(answers, bytes) else answers

    def respond(head: bytes, _: bytes) -> bytes:
        return http(of_groups if b"/api/v1/groups" in head else of_job, status)

    with serving(respond) as served:
        yield served.url.rstrip("/")
