"""The settings files that we ship can be used."""

import shutil
import subprocess
from pathlib import Path

import pytest

from conf import load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["conf/default.toml", "deploy/checkback.toml"])
def test_a_settings_file_is_valid(file: str) -> None:
    assert load(ROOT / file).kafka.topic_prefix == "cb."


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here to ask")
@pytest.mark.parametrize("unit", ["checkback.service", "checkback-checks.service"])
def test_systemd_knows_all_that_a_unit_says(unit: str, tmp_path: Path) -> None:
    """But for the program, which is not installed here."""
    text = (ROOT / "deploy" / unit).read_text(encoding="utf-8")
    (tmp_path / unit).write_text(text.replace("/opt/checkback/bin/checkback", "/bin/true"), encoding="utf-8")
    command = ["systemd-analyze", "verify", str(tmp_path / unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if unit in line] == []
