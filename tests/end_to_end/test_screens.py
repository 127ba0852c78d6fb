"""Page, API, command and metrics, sampled each second from the start to the first delivery and across two SIGKILLs, say
nothing that the topics contradict.

By hand, under load: with SCREENS_HALVES=20000 and SCREENS_LOAD=20 in the environment, and SCREENS_LATE=2 to be strict.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from checkback import CallableListener, CheckEndpoint, LocalTransactionState
from checkback.local.kafka import free_port
from checkback.wire.checks import Announcement
from checkback.wire.protocol import Action, Source, half_headers, op_headers
from checkback.wire.protocol import HalfPosition as At
from tests.end_to_end.job_process import Job
from tests.end_to_end.screens.judging import LIVING, NOBODY, wrong
from tests.end_to_end.screens.oracle import Moment, Oracle
from tests.end_to_end.screens.sampling import Sampler
from tests.end_to_end.screens.truth import Halves, Truth, around
from tests.place import FAR_SECONDS, HALF_PARTITIONS, Place

HALVES = int(os.environ.get("SCREENS_HALVES", "1000"))
LOAD = int(os.environ.get("SCREENS_LOAD", "0"))
SECONDS = 900 if LOAD else FAR_SECONDS
QUIET_SECONDS = 150 if LOAD else 8
"""After two minutes a job that was started again has counted what is open."""
LATE_SECONDS = float(os.environ.get("SCREENS_LATE", "5"))
"""What screens say may have been true that long ago: on a quiet machine a second or two, see docs/status-page.md."""
OPEN, HELD = 10, 5
"""Of each wave: not decided; committed, and without a topic."""


class Shop:
    """Writes half messages, ops and heartbeats as a producer does, with a plain client."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._kafka = place.producer()
        self.waves = 0
        self.deliverable = 0

    def wave(self, number: int) -> None:
        """Every tenth is rolled back, a few are left open or have no topic, and a few are of a group that is gone."""
        topics, name = self._place.topics, f"w{self.waves}"
        self.waves += 1
        sent = []
        for one in range(number):
            group = NOBODY if one < OPEN // 2 else LIVING
            topic = f"{topics.prefix}nowhere" if number - one <= HELD else self._place.real_topic
            partition = one % HALF_PARTITIONS
            headers = half_headers(f"{name}-{one}", group, topic)
            sent.append((one, group, self._kafka.send(topics.half, b"v", headers=headers, partition=partition)))
        for one, group, future in sent:
            half = At(one % HALF_PARTITIONS, future.get(120).offset)
            if one < OPEN:
                continue
            action = Action.COMMIT if one % 10 or number - one <= HELD else Action.ROLLBACK
            headers = op_headers(f"{name}-{one}", group, half, action, Source.PRODUCER)
            self._kafka.send(topics.op, b"", headers=headers, partition=half.partition)
            self.deliverable += action is Action.COMMIT and number - one > HELD
        self._kafka.flush()

    def announce_once(self, group: str, url: str) -> None:
        """As a process does that dies before its next heartbeat."""
        key, value = Announcement(group, "one", url, int(time.time() * 1000)).to_record()
        self._kafka.send(self._place.topics.producers, value, key, partition=0).get(120)

    def close(self) -> None:
        self._kafka.close()


@pytest.fixture
def load() -> Iterator[None]:
    """As many processes that spin as are asked for."""
    spin = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(["nice", *spin]) for _ in range(LOAD)]
    yield
    for process in spinning:
        process.kill()
        process.wait()


@pytest.mark.timeout(4 * SECONDS)
@pytest.mark.usefixtures("load")
def test_no_screen_says_what_the_topics_contradict(place: Place) -> None:
    port = free_port()
    job = Job(
        place,
        {
            "CHECKBACK_HTTP__PORT": str(port),
            "CHECKBACK_JOB__STATE_PARTITIONS": "2",
            "CHECKBACK_JOB__MAX_OFFSETS_PER_TRIGGER": str(max(500, HALVES // 4)),
            "CHECKBACK_TRANSACTIONS__TIMEOUT": "5s",
            "CHECKBACK_TRANSACTIONS__CHECK_INTERVAL": "2s",
            "CHECKBACK_TRANSACTIONS__CHECK_MAX": "1000",
        },
    )
    unknown = CallableListener(*[lambda *_: LocalTransactionState.UNKNOWN] * 2)
    with (
        contextlib.closing(Shop(place)) as shop,
        CheckEndpoint(place.bootstrap_servers, LIVING, unknown, topics=place.topics),
        Oracle(place) as oracle,
    ):
        shop.announce_once("dead", f"http://127.0.0.1:{free_port()}/")
        shop.wave(HALVES)
        try:
            with Sampler(oracle, f"http://127.0.0.1:{port}", job.environment) as sampler:
                run_with_two_kills(job, shop, sampler, oracle)
        finally:
            job.kill()
        said = list(contradictions(place, oracle, sampler))
    assert sum(one.said is not None for one in sampler.samples) > 50
    assert not said, "\n".join([f"{len(said)} statements:", *said])


def run_with_two_kills(job: Job, shop: Shop, sampler: Sampler, oracle: Oracle) -> None:
    def start() -> None:
        sampler.started = oracle.look()
        job.start()

    def kill_while_more_comes() -> None:
        """What is sent when there is no job any more, no job has read."""
        sending = threading.Thread(target=shop.wave, args=(HALVES,))
        halves = len(oracle.records.halves)
        sending.start()
        sampler.until(lambda _: len(oracle.records.halves) > halves, SECONDS, "the next wave")
        job.kill()
        sampler.started = None
        asked = sampler.asked_of_nobody()
        sampler.until(lambda _: sampler.asked_of_nobody() > asked, SECONDS, "an answer of the command without a job")
        sampler.until(lambda _: not sending.is_alive(), SECONDS, "the end of the wave")

    def delivered(number: int) -> None:
        sampler.until(lambda moment: moment.delivered >= number, SECONDS, f"{number} deliveries")

    start()
    delivered(1)
    kill_while_more_comes()
    start()
    delivered(oracle.moments[-1].delivered + 1)
    kill_while_more_comes()
    start()
    delivered(shop.deliverable)
    quiet = time.time()
    sampler.until(lambda moment: moment.ended > quiet + QUIET_SECONDS, 2 * QUIET_SECONDS, "the end of it")


def contradictions(place: Place, oracle: Oracle, sampler: Sampler) -> Iterator[str]:
    """What screens have said that was true at no moment from before they were asked until they had answered."""
    nothing = Moment(0, 0, {}, False, {}, {}, -1, 0, 0, 0)  # noqa: FBT003  (a row of figures)
    first = oracle.moments[0].began
    halves = Halves(oracle.records, place.topics.half, place.topics.op)
    for sample in sampler.samples:
        if sample.said is None:
            continue
        before, after = around(oracle.moments, sample.began - LATE_SECONDS, sample.ended)
        truth = Truth(oracle.records, halves, before, after, sample.started or nothing)
        for said in wrong(sample.screen, sample.said, truth):
            yield f"{sample.began - first:.1f} s, {sample.screen}: {said}"
