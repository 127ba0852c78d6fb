"""Commands to try Checkback with: demo, a local Kafka, sending, reading."""
