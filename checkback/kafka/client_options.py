"""A user's ``kafka_options``: which of them a client of ours takes, and which nobody may set."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from checkback.exceptions import WrongOptionError

_OF_REACHING = (
    *("security", "ssl", "sasl", "enable.ssl", "enable.sasl", "oauth", "https", "socks5", "proxy", "plugin"),
    *("socket", "sock", "connections", "reconnect", "broker", "client", "resolve", "kafka", "api"),
    *("metadata.max", "metadata_max", "topic.metadata", "log", "debug", "error_cb", "stats_cb", "throttle_cb"),
    "statistics",
)
"""How names begin of options that say how Kafka is reached, in both clients."""


def of_reaching(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say how Kafka is reached: what further clients take of a consumer's or a producer's."""
    return {name: value for name, value in options.items() if name.startswith(_OF_REACHING)}


def refuse_options(options: Mapping[str, Any], fixed: Mapping[str, tuple[object, ...]], whose: str) -> None:
    """Refuse options that a promise rests on.

    Args:
        options: the user's.
        fixed: names that must not be set, each with the values that do no harm.
        whose: who has them: ``a producer``.

    Raises:
        WrongOptionError: one of them is set.
    """
    for name, harmless in fixed.items():
        if name in options and options[name] not in harmless:
            may = f": only {' or '.join(map(repr, harmless))}" if harmless else ""
            raise WrongOptionError(f"kafka_options must not set {name!r} of {whose}{may}.")


def no_such_option(library: str, name: str, known: Iterable[str]) -> WrongOptionError:
    """The error for an option that a client does not have; names the nearest that it has."""
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    return WrongOptionError(f"{library} cannot use these settings: there is no option {name!r}{meant}")
