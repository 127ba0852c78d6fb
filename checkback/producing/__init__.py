"""Sending half messages and ending transactions."""
