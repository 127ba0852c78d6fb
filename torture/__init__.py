"""Fault runs: the whole system under seeded faults, judged by an oracle. ``checkback torture``."""

from torture.run import Options, RoundReport, TortureReport, torture, torture_large_batches

__all__ = ["Options", "RoundReport", "TortureReport", "torture", "torture_large_batches"]
