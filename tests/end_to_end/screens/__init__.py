"""What a job's screens say, sampled each second, and held against what Kafka and the checkpoint folder have."""
