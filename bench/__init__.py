"""Measurements a user can repeat: ``checkback bench``."""

from bench.backlog import BacklogResult, measure_backlog
from bench.capacity import Load, Needs, needs_of
from bench.checks import ChecksResult, measure_checks
from bench.consume import ConsumerResult, measure_consumers
from bench.cost.guard import SHORT_GUARD, GuardPlan, GuardResult, measure_guard
from bench.curves.draw import draw, need_drawing
from bench.curves.panels import panels_of_latency, panels_of_open, panels_of_soak
from bench.dead_lanes import DeadLanes, DeadLanesResult, measure_dead_lanes
from bench.due_together import DueTogether, DueTogetherResult, measure_due_together
from bench.end_to_end.measure import EndToEndPlan, EndToEndResult, measure_end_to_end
from bench.gateway import GatewayPlan, GatewayResult, measure_gateway
from bench.lasting.many_open import OpenPlan, OpenResult, measure_open
from bench.lasting.soak import SoakPlan, SoakResult, measure_soak
from bench.latency import LatencyResult, Rate, measure_latency
from bench.neighbours import Neighbours, NeighboursResult, measure_neighbours
from bench.outage import Outage, OutageResult, measure_outage
from bench.producer import ProducerResult, measure_producers
from bench.rocketmq.against import AgainstResult, measure_against_rocketmq
from bench.starting.recover import RecoverResult, measure_recovery
from bench.throughput import ThroughputResult, measure_throughput
from bench.workers import WorkersPlan, WorkersResult, measure_workers

__all__ = [
    "SHORT_GUARD",
    "AgainstResult",
    "BacklogResult",
    "ChecksResult",
    "ConsumerResult",
    "DeadLanes",
    "DeadLanesResult",
    "DueTogether",
    "DueTogetherResult",
    "EndToEndPlan",
    "EndToEndResult",
    "GatewayPlan",
    "GatewayResult",
    "GuardPlan",
    "GuardResult",
    "LatencyResult",
    "Load",
    "Needs",
    "Neighbours",
    "NeighboursResult",
    "OpenPlan",
    "OpenResult",
    "Outage",
    "OutageResult",
    "ProducerResult",
    "Rate",
    "RecoverResult",
    "SoakPlan",
    "SoakResult",
    "ThroughputResult",
    "WorkersPlan",
    "WorkersResult",
    "draw",
    "measure_against_rocketmq",
    "measure_backlog",
    "measure_checks",
    "measure_consumers",
    "measure_dead_lanes",
    "measure_due_together",
    "measure_end_to_end",
    "measure_gateway",
    "measure_guard",
    "measure_latency",
    "measure_neighbours",
    "measure_open",
    "measure_outage",
    "measure_producers",
    "measure_recovery",
    "measure_soak",
    "measure_throughput",
    "measure_workers",
    "need_drawing",
    "needs_of",
    "panels_of_latency",
    "panels_of_open",
    "panels_of_soak",
]
