"""The version of all distributions: ``checkback``, ``checkback-job`` and ``checkback-lab``."""

__version__ = "0.1.0"
"""Of this installation, as in its wheel."""
