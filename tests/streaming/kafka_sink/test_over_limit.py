"""Messages of groups over a limit whose topic does not take them: no more of them are kept. No Kafka."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkback.wire.message_json import pack
from checkback.wire.protocol import UNDELIVERABLE, Message, Topics
from state import BUNDLE, Arrivals
from streaming.access.told import POLICY_WORD
from streaming.batch.headers import Headers, packed_headers
from streaming.batch.record import Record
from streaming.brokers.directory import NO_SUCH_TOPIC, Standing
from streaming.fairness.barred import BARRED_WORD
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import RecordBuilder
from tests.state.records import Half, Op, arrivals
from tests.streaming.kafka_sink.test_lane_records import Anything, said
from tests.streaming.outcomes import rows

Bar = Callable[[Any], None]
TOPICS = Topics()
OWN: Headers = [("cb-id", b"tx"), ("cb-group", b"shop"), ("cb-topic", b"gone"), ("cb-action", b"commit")]
APPLICATION: Headers = [("trace", b"1")]
WHY = "shop has too much"
SENT = Half(group="shop", topic="gone", says="commit", headers=packed_headers([*OWN, *APPLICATION]))
OPEN = Half(group="shop", topic="gone", headers=packed_headers(APPLICATION))
COMMIT = Op(group="shop")
DELAYED = Half(group="shop", topic="gone", says="commit", deliver_at_ms=1, headers=SENT.headers)
PARKED = Half(group="shop", topic="gone", says="park", headers=SENT.headers)


class Gone(Anything):
    """One topic does not exist, or the topic of a group's retries."""

    def learn(self, topics: Any) -> None:
        super().learn(topics)
        lost = {"gone", TOPICS.retry("shop")} & self.standings.keys()
        self.standings.update(dict.fromkeys(lost, Standing(0, NO_SUCH_TOPIC)))

    def again(self, topic: str) -> Standing:
        return self.standings[topic]


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Bar:
    def set_barred(barred: Any) -> None:
        monkeypatch.setattr(BARRED_WORD, "told", lambda: json.dumps(barred))

    return set_barred


def written(*steps: Arrivals) -> tuple[RecordBuilder, list[Record]]:
    """What the sink writes of the last step."""
    builder = RecordBuilder(TOPICS, Gone(), Holding(TOPICS.half, 0))
    records = [record for batch in rows(*said(*steps, half_partition=0)) for record in builder.build(batch)]
    return builder, [record for record in records if record.topic != TOPICS.parked]


def test_what_was_sent_and_not_counted_before_is_rejected(bar: Bar) -> None:
    bar({"shop": WHY})
    builder, (record,) = written(arrivals([SENT]))
    assert (record.topic, record.key, record.value) == (TOPICS.rejected, b"key", b"value")
    why = {"cb-reason": f"{UNDELIVERABLE} gone: {NO_SUCH_TOPIC}; {WHY}".encode(), "cb-from": b"cb.half:0:0"}
    assert dict(record.headers) == {**why, **dict(OWN), **dict(APPLICATION)}
    assert builder.counts == {"committed": -1, "rejected": 1}


@pytest.mark.parametrize(
    "steps",
    [
        (arrivals([OPEN], [COMMIT]),),
        (arrivals([OPEN]), arrivals([], [COMMIT])),
        (arrivals([DELAYED]), arrivals()),
        (arrivals([PARKED]), arrivals([], [Op("redeliver", group="shop")])),
    ],
    ids=["open in this batch", "open", "delayed", "parked"],
)
def test_what_was_counted_before_is_held_also_above_the_limit(bar: Bar, steps: tuple[Arrivals, ...]) -> None:
    bar({"shop": WHY})
    _, (record,) = written(*steps)
    assert (record.topic, dict(record.headers)["cb-action"]) == (TOPICS.half, b"commit")


def test_what_others_send_is_held(bar: Bar) -> None:
    bar({"groups": {"other": WHY}, "accounts": {"big": WHY}})
    assert [record.topic for record in written(arrivals([SENT]))[1]] == [TOPICS.half]


def test_one_of_several_messages_is_rejected_alone(bar: Bar) -> None:
    bar({"shop": WHY})
    value = pack([Message("orders", b"a"), Message("gone", b"b", headers=[("own", b"2")])])
    headers = packed_headers([*OWN[:2], ("cb-topic", b"orders"), OWN[3], ("cb-messages", b"2"), *APPLICATION])
    several = Half(group="shop", topic="orders", partition=BUNDLE, says="commit", value=value, headers=headers)
    _, (delivered, rejected) = written(arrivals([several]))
    assert (delivered.topic, rejected.topic, rejected.value) == ("orders", TOPICS.rejected, b"b")
    assert rejected.headers[2:] == [("cb-id", b"tx#2"), *OWN[1:], ("own", b"2"), *APPLICATION]


def test_limits_of_accounts_hold_too(bar: Bar, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {"accounts": {"big": {"groups": ["shop"], "topics": ["gone"]}}}
    monkeypatch.setattr(POLICY_WORD, "told", lambda: json.dumps(policy))
    bar({"groups": {}, "accounts": {"big": WHY}})
    assert [record.topic for record in written(arrivals([SENT]))[1]] == [TOPICS.rejected]


def test_retries_count_for_their_topic_and_become_dead_letters(bar: Bar) -> None:
    topic = TOPICS.retry("shop")
    headers: Headers = [*OWN[:2], ("cb-topic", topic.encode()), OWN[3], *APPLICATION]
    retry = Half(group="shop", topic=topic, says="commit", headers=packed_headers(headers))
    bar({"shop": WHY})
    assert [record.topic for record in written(arrivals([retry]))[1]] == [TOPICS.half]
    bar({topic: WHY})
    assert [record.topic for record in written(arrivals([retry]))[1]] == [TOPICS.dead("shop")]
