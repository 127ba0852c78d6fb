"""What a measurement says was delivered once, was."""

import pytest
from confluent_kafka import Producer

from bench.workload import delivered_once
from checkback.exceptions import CheckbackError
from checkback.wire.protocol import ID
from tests.place import Place


def write(place: Place, transactional_id: str, *ids: str) -> None:
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    for name in ids:
        producer.produce(place.real_topic, b"value", partition=2, headers=[(ID, name.encode())])
    producer.commit_transaction(30)


def test_each_once(place: Place) -> None:
    write(place, place.topics.prefix, "a", "b", "c")
    assert delivered_once(place.bootstrap_servers, 3, place.real_topic, 4) == 3


def test_a_copy_behind_all_that_is_expected_is_seen(place: Place) -> None:
    write(place, place.topics.prefix, "a", "b", "c")
    write(place, place.topics.prefix, "b")
    with pytest.raises(CheckbackError, match="4 messages"):
        delivered_once(place.bootstrap_servers, 3, place.real_topic, 4)
