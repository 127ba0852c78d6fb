"""What a running job notices of its topics."""

import pytest

from checkback.kafka.librdkafka.topics import TopicDescription
from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.ownership import preconditions
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import JobClock
from streaming.ownership.preconditions import BatchPreconditions


def test_half_partitions_that_were_grown_alone_are_named_until_the_op_topic_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings, ids = SinkSettings("localhost:1", Topics(), 1000), {"cb.half": "h", "cb.op": "o"}
    looking = BatchPreconditions(settings, Claim(settings), Owner("query"), ids, JobClock(lambda: None, 1000))
    counts = {"cb.half": 5, "cb.op": 2}
    monkeypatch.setattr(preconditions, "_TOPICS_SECONDS", 0.0)

    def described(*_: object) -> dict[str, TopicDescription]:
        return {name: TopicDescription(ids[name], number) for name, number in counts.items()}

    monkeypatch.setattr(preconditions, "described", described)
    for _ in range(2):
        looking.refuse_other_topics()
        assert looking.few_ops.startswith("cb.half has 5 partitions and cb.op 2")
    assert caplog.text.count("cb.half has 5 partitions") == 1
    counts["cb.op"] = 5
    looking.refuse_other_topics()
    assert looking.few_ops == ""
