"""Fault runs in which Kafka forgets. ``checkback torture --quiet`` and ``checkback torture --made-again``."""
