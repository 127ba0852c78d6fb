"""The two Kafka clients of a consumer: kafka-python, the default, or confluent-kafka, which is faster."""
