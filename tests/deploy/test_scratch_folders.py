"""Where a run's scratch folder lies in the deployments that we ship: sockets in it have to have a name that fits."""

import re
from pathlib import Path

import pytest

from checkback.local.folders import take_scratch
from streaming.session import _python_sockets
from tests.deploy.prometheus import DEPLOY


@pytest.mark.parametrize("file", ["Dockerfile", "checkback.service"])
def test_java_and_python_speak_through_files_there_and_not_through_ports(file: str, tmp_path: Path) -> None:
    named = re.search(r"SPARK_LOCAL_DIRS=(\S+)", (DEPLOY / file).read_text(encoding="utf-8"))
    assert named is not None
    (own,) = take_scratch([tmp_path])
    assert _python_sockets(Path(named[1]) / own.name)
