"""A gateway to Checkback for RocketMQ's own clients, and for whoever speaks HTTP."""
