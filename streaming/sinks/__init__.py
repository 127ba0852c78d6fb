"""Destinations beside Kafka: tables that committed messages go to, by rules, exactly once."""

from streaming.sinks.building import destinations_of, publisher_of
from streaming.sinks.publishing import Publisher
from streaming.sinks.routes import Routes

__all__ = ["Publisher", "Routes", "destinations_of", "publisher_of"]
