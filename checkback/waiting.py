"""How long Checkback's Kafka clients wait for a broker, before they say that none answers."""

CONNECT_MS = 8_000
"""When a client is made. kafka-python's own is 30 s, in which people at a terminal begin to doubt themselves."""
