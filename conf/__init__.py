"""Typed settings: one TOML file, environment variables, and every default in ``default.toml``."""

from conf.durations import Milliseconds
from conf.settings import (
    CheckSettings,
    HttpSettings,
    JobSettings,
    KafkaSettings,
    QuotaSettings,
    Settings,
    TransactionSettings,
)
from conf.sinks import KAFKA, DeltaTable, ParquetFiles, PostgresqlTable, SinkRule, SinksSettings
from conf.sources import SettingOrigin, default_text, load, origins

__all__ = [
    "KAFKA",
    "CheckSettings",
    "DeltaTable",
    "HttpSettings",
    "JobSettings",
    "KafkaSettings",
    "Milliseconds",
    "ParquetFiles",
    "PostgresqlTable",
    "QuotaSettings",
    "SettingOrigin",
    "Settings",
    "SinkRule",
    "SinksSettings",
    "TransactionSettings",
    "default_text",
    "load",
    "origins",
]
