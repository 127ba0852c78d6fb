"""Which notices of groups over a limit the job stores, and when again; what producers' clients read of it."""

import pytest

from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.kafka_python.transport import KafkaPythonTransport
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.kafka.send_limits import Notice, store_notices
from streaming.fairness.fairness import due_notices
from tests.place import Place, wait_until

MINUTE_MS = 60_000
WHY = "group größer has 21 of quotas.open = 20; it is let in again below nine tenths"


def test_a_notice_is_stored_at_a_change_and_before_it_is_over() -> None:
    now_ms, barred = 1_000 * MINUTE_MS, {"shop": "too much"}
    assert due_notices({}, {}, now_ms) == {}
    stored = due_notices({}, barred, now_ms)
    assert stored == {"shop": (now_ms + 5 * MINUTE_MS, "too much")}
    assert due_notices(stored, barred, now_ms) == {}
    assert due_notices(stored, barred, now_ms + 2 * MINUTE_MS) == {"shop": (now_ms + 7 * MINUTE_MS, "too much")}
    assert due_notices(stored, {}, now_ms) == {"shop": (0, "")}


def test_groups_that_an_account_makes_up_keep_no_other_from_being_told() -> None:
    due = due_notices({}, {**{f"a{number}": "account big" for number in range(2_000)}, "shop": "group shop"}, 0)
    assert (len(due), due["shop"][1]) == (1_000, "group shop")


def _stores(place: Place, notice: Notice) -> bool:
    try:
        store_notices(place.bootstrap_servers, {}, place.topics.progress, {"größer": notice})
    except KafkaError as error:
        return not error.retriable  # the first group waits until Kafka has made the topic of all groups' offsets
    return True


@pytest.mark.parametrize("transport", [KafkaPythonTransport, ConfluentTransport])
def test_what_the_job_stores_each_client_reads(place: Place, transport: type) -> None:
    progress, notice = place.topics.progress, (1_764_000_000_000, WHY)
    reading = transport(place.bootstrap_servers, 10_000, {})
    try:
        wait_until(lambda: _stores(place, notice))
        wait_until(lambda: reading.limit_notices(progress, {"größer", "other"}) == {"größer": notice})
        assert _stores(place, (0, ""))
        wait_until(lambda: reading.limit_notices(progress, {"größer", "other"}) == {})
    finally:
        reading.close(10)
