"""Kafka's brokers as the job meets them: clients, what is tried again, what they say of topics."""
