"""Reads settings: defaults, then one TOML file, then the environment; and tells where each value came from."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from checkback.exceptions import ConfigurationError
from conf.explaining import explained
from conf.redaction import redacted
from conf.settings import Settings

ENVIRONMENT_PREFIX = "CHECKBACK_"
FILE_VARIABLE = "CHECKBACK_CONFIG"


class SettingOrigin(StrEnum):
    """Where a setting's value came from."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class Effective(NamedTuple):
    """One setting as it holds."""

    key: str
    value: Any
    origin: SettingOrigin


class _Environment(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid")


_FROM_ENVIRONMENT = create_model(
    "_FromEnvironment",
    __base__=_Environment,
    **{name: (field.annotation, field.default) for name, field in Settings.model_fields.items()},
)  # type: ignore[call-overload]  # the sections are known where they are defined, and only there
"""The sections, as pydantic-settings reads them from ``CHECKBACK_SECTION__KEY``."""


def load(file: Path | None = None, bootstrap_servers: str | None = None) -> Settings:
    """The effective settings. ``file`` is the TOML file; without it the one ``CHECKBACK_CONFIG`` names, if any.

    ``bootstrap_servers``, when given, overrides file and environment.

    Raises:
        ConfigurationError: an unknown key, a wrong type or a contradiction; the message names every key.
    """
    merged = _merge(_merge(_file(file), _environment()), _command_line(bootstrap_servers))
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigurationError(explained(error, Settings, "These settings")) from None


def origins(file: Path | None = None, bootstrap_servers: str | None = None) -> list[Effective]:
    """Every setting with its value and where that came from, in the order of ``default.toml``; secrets are hidden."""
    settings = load(file, bootstrap_servers)
    from_file, from_environment = dict(_leaves(_file(file))), dict(_leaves(_environment()))
    from_command_line = dict(_leaves(_command_line(bootstrap_servers)))

    def origin(key: str) -> SettingOrigin:
        if _names(from_command_line, key):
            return SettingOrigin.COMMAND_LINE
        if _names(from_environment, key):
            return SettingOrigin.ENVIRONMENT
        return SettingOrigin.FILE if _names(from_file, key) else SettingOrigin.DEFAULT

    return [Effective(key, redacted(value), origin(key)) for key, value in _rows(settings)]


def _file(file: Path | None) -> dict[str, Any]:
    named = file or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    if named is None:
        return {}
    try:
        return tomllib.loads(named.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"Cannot read the settings file {named}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{named} is not TOML: {error}.") from None


def _rows(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting under its whole name, as JSON spells its value; tables that users name things in stay whole."""
    spelled = section.model_dump(mode="json")
    for name in type(section).model_fields:
        inner = getattr(section, name)
        if isinstance(inner, BaseModel):
            yield from _rows(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", spelled[name]


def default_text() -> str:
    """``default.toml`` as it is: every setting with its default and a line about it."""
    return resources.files("conf").joinpath("default.toml").read_text(encoding="utf-8")


def _command_line(bootstrap_servers: str | None) -> dict[str, Any]:
    return {} if bootstrap_servers is None else {"kafka": {"bootstrap_servers": bootstrap_servers}}


def _environment() -> dict[str, Any]:
    _refuse_unknown_variables()
    try:
        return EnvSettingsSource(_FROM_ENVIRONMENT)()
    except Exception as error:
        raise ConfigurationError(f"Environment: {error}") from error


def _refuse_unknown_variables() -> None:
    for variable in os.environ:
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == FILE_VARIABLE:
            continue
        section = variable.removeprefix(ENVIRONMENT_PREFIX).partition("__")[0].lower()
        if section not in Settings.model_fields:
            raise ConfigurationError(
                f"Unknown environment variable {variable}: settings are {ENVIRONMENT_PREFIX}SECTION__KEY, with one of "
                f"the sections {', '.join(Settings.model_fields)}."
            )


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: _merge(below[key], above[key]) for key in below.keys() & above.keys() if _tables(below, above, key)}
    return {**below, **above, **both}


def _tables(below: Mapping[str, Any], above: Mapping[str, Any], key: str) -> bool:
    return isinstance(below[key], Mapping) and isinstance(above[key], Mapping)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _names(leaves: Mapping[str, Any], key: str) -> bool:
    return any(leaf == key or leaf.startswith(f"{key}.") for leaf in leaves)
