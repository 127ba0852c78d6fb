"""gRPC, as RocketMQ's own clients speak it."""
