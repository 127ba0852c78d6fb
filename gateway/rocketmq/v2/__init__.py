"""Generated from gateway/protos: RocketMQ's messages."""
