"""Spark's stateful operator: records to columns, columns through the segments of ``state``."""
