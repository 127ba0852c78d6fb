"""The version of all distributions: ``checkback``, ``checkback-job``, ``checkback-lab`` and ``checkback-gateway``."""

__version__ = "0.1.0"
"""Of this installation, as in its wheel."""
