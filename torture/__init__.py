"""Fault runs: the whole system under seeded faults, judged by an oracle. ``checkback torture``."""

from torture.run import RoundReport, TortureReport, torture

__all__ = ["RoundReport", "TortureReport", "torture"]
