"""What the job tells people and tools about itself: metrics, the status page's facts, offsets in Kafka."""
