"""Fault runs with shops on real databases, whose transaction logs answer checks. ``checkback torture --shops``."""
