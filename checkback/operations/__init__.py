"""What operators read and write: topics, transactions in doubt, parked and rejected messages, a transaction's story."""
