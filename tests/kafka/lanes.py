"""A lane, on a real broker."""

from checkback.kafka.librdkafka.lanes import Lane, LanePlace
from checkback.wire.lanes import transactional_id
from tests.place import Place


def opened(place: Place, lane: str, group: str = "orders") -> Lane:
    made = Lane(LanePlace(place.bootstrap_servers, place.topics, transactional_id(group, lane), {}))
    made.open()
    return made
