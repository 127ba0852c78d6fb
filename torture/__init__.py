"""Fault runs: the whole system under seeded faults, judged by an oracle. ``checkback torture``.

Nothing is imported here: processes of a fault run are started again and again, and need little of it.
"""
