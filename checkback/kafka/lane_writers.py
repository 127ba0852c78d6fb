"""Which library a lane is on."""

from checkback.kafka.connecting import TransportName, is_confluent
from checkback.kafka.lanes import LanePlace, LaneWriter


def lane_writer(name: TransportName | str, place: LanePlace) -> LaneWriter:
    """A writer of a library, which has not connected yet.

    Raises:
        ConfigurationError: there is no such library, or a setting cannot be.
    """
    if is_confluent(name):
        from checkback.kafka.librdkafka.lanes import ConfluentLane  # noqa: PLC0415  (may not be installed)

        return ConfluentLane(place)
    from checkback.kafka.kafka_python.lanes import KafkaPythonLane  # noqa: PLC0415  (only lanes need it)

    return KafkaPythonLane(place)
