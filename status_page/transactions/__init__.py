"""Transactions in doubt and parked messages: found, listed, decided."""
