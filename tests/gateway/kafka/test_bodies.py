"""A body that was left out of a check is read where its half message lies, and no other's is."""

import asyncio
from contextlib import closing
from functools import partial

from checkback.kafka.topic_reading import reading_consumer
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, half_headers
from gateway.kafka.bodies import HalfBodies
from tests.gateway.scene import NOW_MS
from tests.place import Place


def whole(bodies: HalfBodies, check: CheckRequest) -> CheckRequest:
    """The first read may take longer than a check has."""

    async def read() -> CheckRequest:
        for _ in range(30):
            if (found := await bodies.whole(check)) is not None:
                return found
        raise AssertionError("it is not read")

    return asyncio.run(read())


def test_what_lies_there_of_another_transaction_is_not_told(place: Place) -> None:
    producer = place.producer()
    headers = list(half_headers("own", "shop", place.real_topic))
    producer.send(place.topics.half, b"body", partition=0, headers=headers).get(120)
    producer.close()
    own = CheckRequest("own", "shop", "orders", None, None, [], HalfPosition(0, 0), 1, 15, NOW_MS, left_out=4)
    before = CheckRequest("before", "shop", "orders", None, None, [], HalfPosition(0, 0), 1, 15, NOW_MS, left_out=4)
    with closing(HalfBodies(place.topics.half, partial(reading_consumer, place.bootstrap_servers))) as bodies:
        assert whole(bodies, own).value == b"body"
        assert whole(bodies, before) == before
