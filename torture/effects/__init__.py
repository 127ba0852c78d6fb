"""Fault runs with consumers that book effects through the inbox. ``checkback torture --consumers``."""
