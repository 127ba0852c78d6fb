"""Measurements a user can repeat: ``checkback bench``."""

from bench.latency import LatencyResult, measure_latency
from bench.producer import ProducerResult, measure_producers
from bench.throughput import ThroughputResult, measure_throughput

__all__ = [
    "LatencyResult",
    "ProducerResult",
    "ThroughputResult",
    "measure_latency",
    "measure_producers",
    "measure_throughput",
]
