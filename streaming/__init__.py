"""The Spark query: source, decode, the thin adapter around ``state``, and the exactly-once sink."""

from streaming.job import TransactionJob
from streaming.session import build_session
from streaming.sink import BatchReport

__all__ = ["BatchReport", "TransactionJob", "build_session"]
