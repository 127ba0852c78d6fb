"""Kafka, as every part of the SDK meets it: clients of both libraries, waiting, outages, reading a topic."""
