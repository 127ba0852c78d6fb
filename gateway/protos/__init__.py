"""RocketMQ's interface, as its own clients speak it, and where it comes from."""
