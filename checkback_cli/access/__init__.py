"""``checkback access``: the rights of each role on Kafka's own lists."""
