"""Fault runs with a network that delays, loses and repeats Kafka requests: ``checkback torture --network``."""
