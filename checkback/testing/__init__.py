"""For tests of applications: without Kafka, or with a real one and the real job on this machine."""

from checkback.testing.asking import ask, check_request
from checkback.testing.cluster import LocalCluster
from checkback.testing.job_process import JobProcess
from checkback.testing.recording import RecordedTransaction, RecordingTransport

__all__ = ["JobProcess", "LocalCluster", "RecordedTransaction", "RecordingTransport", "ask", "check_request"]
