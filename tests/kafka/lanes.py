"""Lanes of both libraries, on a real broker."""

from checkback.kafka.connecting import TransportName
from checkback.kafka.lane_writers import lane_writer
from checkback.kafka.lanes import LanePlace, LaneWriter
from checkback.wire.lanes import transactional_id
from tests.place import Place


def opened(transport: TransportName, place: Place, lane: str, group: str = "orders") -> LaneWriter:
    made = lane_writer(transport, LanePlace(place.bootstrap_servers, place.topics, transactional_id(group, lane), {}))
    made.open()
    return made
