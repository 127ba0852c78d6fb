"""A network that delays, loses and repeats Kafka requests."""
