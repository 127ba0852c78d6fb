"""What a gateway reads and writes in Kafka."""
