"""The job on real clusters: Spark's own, of which nothing is shared but Kafka and the checkpoint; several brokers."""
