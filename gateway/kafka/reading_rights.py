"""What is said where Kafka does not let a gateway read."""

from checkback.kafka.kafka_python.library import AuthorizationError
from checkback.wire.rights import not_allowed, read


def explained(error: Exception, *topics: str) -> str:
    """What to tell people of an error of kafka-python's; ``topics``: what was read."""
    if not isinstance(error, AuthorizationError):
        return repr(error)
    return str(not_allowed("the gateway", error, [read(topic, "checks") for topic in topics]))
