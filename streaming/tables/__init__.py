"""Destinations beside Kafka: tables that committed messages go to, by rules, exactly once."""

from streaming.tables.building import destinations_of, publisher_of
from streaming.tables.publishing import Publisher
from streaming.tables.routes import Routes

__all__ = ["Publisher", "Routes", "destinations_of", "publisher_of"]
