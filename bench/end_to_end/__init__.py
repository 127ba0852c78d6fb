"""The whole way: senders, broker, job and consumer on the same cores."""
