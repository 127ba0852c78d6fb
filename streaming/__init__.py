"""The Spark query: source, decode, the thin adapter around ``state``, and the exactly-once sink."""

from streaming.batch.batch import BatchReport
from streaming.job import TransactionJob
from streaming.session import build_session

__all__ = ["BatchReport", "TransactionJob", "build_session"]
