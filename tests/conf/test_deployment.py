"""The settings files that we ship can be used."""

from pathlib import Path

import pytest

from conf import load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["conf/default.toml", "deploy/checkback.toml"])
def test_a_settings_file_is_valid(file: str) -> None:
    assert load(ROOT / file).kafka.topic_prefix == "cb."
