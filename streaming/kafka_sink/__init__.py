"""One state partition of one batch as one Kafka transaction."""
