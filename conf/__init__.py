"""Typed settings: one TOML file, environment variables, and every default in ``default.toml``."""

from conf.durations import Milliseconds
from conf.settings import CheckSettings, JobSettings, KafkaSettings, Settings, TransactionSettings
from conf.sources import Origin, load, origins

__all__ = [
    "CheckSettings",
    "JobSettings",
    "KafkaSettings",
    "Milliseconds",
    "Origin",
    "Settings",
    "TransactionSettings",
    "load",
    "origins",
]
