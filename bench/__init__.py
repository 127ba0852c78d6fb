"""Measurements a user can repeat: ``checkback bench``."""

from bench.checks import ChecksResult, measure_checks
from bench.latency import LatencyResult, measure_latency
from bench.producer import ProducerResult, measure_producers
from bench.throughput import ThroughputResult, measure_throughput

__all__ = [
    "ChecksResult",
    "LatencyResult",
    "ProducerResult",
    "ThroughputResult",
    "measure_checks",
    "measure_latency",
    "measure_producers",
    "measure_throughput",
]
