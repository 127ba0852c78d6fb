"""What each alert is for, made to happen: an installation of its own for each."""

from collections.abc import Mapping
from dataclasses import replace

from streaming.observing.metrics import KeptNow, OpenNow
from tests.deploy.installation import SKIPPED, Doing, Reading

DEMO = "the demo"
BUSY = "a bit of everything"
NO_JOB = "no job"
NO_CHECKS = "no check service"
NO_GATEWAY = "no gateway"
_HOUR, _DAY = 3_600.0, 86_400.0
_DEMO = Doing()


def _counting(**more: int) -> Doing:
    return replace(_DEMO, counts={**_DEMO.counts, **more})


CAUSES: Mapping[str, tuple[Doing, set[str]]] = {
    DEMO: (_DEMO, set()),
    "a job that hangs": (replace(_DEMO, ended_seconds_ago=200), {"CheckbackJobStalled"}),
    "more than it can take": (replace(_DEMO, backlog=200_000, backlog_grows=5_000), {"CheckbackBacklogGrowing"}),
    "much, and less of it": (replace(_DEMO, backlog=9_000_000, backlog_grows=-5_000), set()),
    "an open Kafka transaction": (replace(_DEMO, held_back_seconds=90), {"CheckbackPartitionHeldBack"}),
    "cb.half deleted by size": (_counting(gone=1), {"CheckbackContentGone"}),
    "much state": (replace(_DEMO, state_bytes=450 << 20), {"CheckbackStateLarge"}),
    "a worker that is lost": (replace(_DEMO, executors=(2, 1)), {"CheckbackExecutorLost"}),
    "nobody knows an outcome": (
        replace(_DEMO, open_now=(OpenNow("shop", "orders", 1, _HOUR),)),
        {"CheckbackTransactionOpenForLong"},
    ),
    "nobody has known for days": (
        replace(_DEMO, open_now=(OpenNow("shop", "orders", 1, 2.9 * _DAY),)),
        {"CheckbackTransactionOpenForLong", "CheckbackAgeLimitNear"},
    ),
    "checked in vain": (
        replace(_counting(parked=1), kept=(KeptNow("shop", 4_000, 0, 3),), reasons={("parked", "in vain"): 1}),
        {"CheckbackMessagesParked"},
    ),
    "a topic that is gone": (
        replace(_counting(held=2), reasons={("held", "topic orders does not exist"): 2}),
        {"CheckbackMessagesHeld"},
    ),
    "a foreign writer": (
        replace(_counting(rejected=2), reasons={("rejected", "it has no header cb-id"): 2}),
        {"CheckbackRecordsRejected"},
    ),
    "a group that takes much": (
        replace(_DEMO, kept=(KeptNow("shop", 60 << 30, 0, 0), KeptNow("bank", 1, 9, 0))),
        {"CheckbackQuotaNear"},
    ),
    "a policy with a typo": (replace(_DEMO, policy_wrong=True), {"CheckbackAccessPolicyWrong"}),
    "endpoints that raise": (
        replace(_DEMO, checks={"checked": 9, "check_unknown": 9}),
        {"CheckbackChecksFailing"},
    ),
    "a check service that hangs": (replace(_DEMO, unanswered_seconds=90), {"CheckbackChecksUnanswered"}),
    "an application that is gone": (
        replace(_DEMO, checks={"checked": 1, "check_unreachable": 1}, endpoints=(SKIPPED,), postponed=3),
        {"CheckbackGroupGone"},
    ),
    "messages that always fail": (replace(_DEMO, reading=Reading(dead=1)), {"CheckbackConsumerDeadLetters"}),
    "a consumer that is too slow": (
        replace(_DEMO, reading=Reading(lag=200_000, lag_grows=5_000)),
        {"CheckbackConsumerBehind"},
    ),
    "a consumer whose listener hangs": (replace(_DEMO, reading=Reading(done=0)), {"CheckbackConsumerStuck"}),
    BUSY: (
        replace(
            _counting(parked=1, held=1, rejected=1, duplicate=1, delayed=1, redelivered=1, check_unreachable=1),
            checks={**_DEMO.checks, "check_unreachable": 1},
            reasons={("parked", "in vain"): 1, ("held", "no such topic"): 1, ("rejected", "no cb-id"): 1},
            kept=(KeptNow("shop", 4_000, 2, 1),),
            published={"lake": 3},
            refused={("shop", "payroll", "group shop may not send to payroll"): 1},
            postponed=1,
            lanes=1,
        ),
        {"CheckbackMessagesParked", "CheckbackMessagesHeld", "CheckbackRecordsRejected"},
    ),
}
"""Of each installation: what it does, and the alerts that are to fire for it."""

DOWN = {
    NO_JOB: ("job", "CheckbackJobDown"),
    NO_CHECKS: ("checks", "CheckbackChecksDown"),
    NO_GATEWAY: ("gateway", "CheckbackGatewayDown"),
}
"""Installations of which a process does not answer: its role, and the alert."""
