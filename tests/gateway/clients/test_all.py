"""All cases of all clients, with a real job: minutes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.clients import installed

_SECONDS = 1_500


@pytest.mark.lab
@pytest.mark.timeout(_SECONDS + 60)
@pytest.mark.parametrize("name", list(installed.ALL))
def test_all_cases(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.gateway.clients.all", "--clients", name]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if "not run" in done.stdout:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
