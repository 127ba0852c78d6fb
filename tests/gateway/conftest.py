from pathlib import Path

import pytest

from tests.gateway.scene import KEYS, POLICY, Scene


@pytest.fixture
def guarded(tmp_path: Path) -> Scene:
    """With accounts ``shop`` and ``other``."""
    return Scene(policy=POLICY, keys=KEYS, folder=tmp_path)
