"""Measurements a user can repeat: ``checkback bench``."""

from bench.latency import LatencyResult, measure_latency
from bench.throughput import ThroughputResult, measure_throughput

__all__ = ["LatencyResult", "ThroughputResult", "measure_latency", "measure_throughput"]
