"""TOML that people have written."""

import tomllib
from typing import Any

from checkback.exceptions import ConfigurationError


def loaded(text: str) -> dict[str, Any]:
    """What it says.

    Raises:
        ConfigurationError: it is not TOML, or no reader takes it: numbers of thousands of digits, arrays in arrays in
            arrays.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its text says where, and shows a character at most
        raise ConfigurationError(f"It is not TOML: {error}.") from None
