"""HTTP and JSON, for whoever has neither a Kafka client nor one of RocketMQ's."""
