"""The version of both distributions, ``checkback`` and ``checkback-job``."""

__version__ = "0.1.0"
