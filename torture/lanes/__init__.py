"""Fault runs with producers that deliver themselves: ``checkback torture --lanes``."""
