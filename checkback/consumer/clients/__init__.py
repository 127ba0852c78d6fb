"""The Kafka clients of a consumer."""
