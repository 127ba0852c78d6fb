"""Destinations beside Kafka: tables that committed messages go to, by rules, exactly once."""

from streaming.sinks.building import publisher_of
from streaming.sinks.publishing import Publisher
from streaming.sinks.routes import Routes

__all__ = ["Publisher", "Routes", "publisher_of"]
