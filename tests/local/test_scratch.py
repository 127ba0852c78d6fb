"""What a killed run leaves in Spark's scratch folder is removed by the next start, and nothing of a living run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from checkback.local.folders import DIRS, left_in, scratch_folders, take_scratch

_RUN = """
import sys, time
from pathlib import Path
from checkback.local.folders import take_scratch
(own,) = take_scratch([Path(sys.argv[1])])
(own / "blockmgr-1").mkdir()
(own / "blockmgr-1" / "shuffle").write_bytes(bytes(1_000_000))
print(own, flush=True)
sys.stdin.read()
"""


class Run:
    """A process with files in the scratch folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.own = Path(self._process.stdout.readline().strip())

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def end(self) -> None:
        self._process.communicate()


def test_a_start_removes_what_dead_runs_have_left_and_nobody_elses(tmp_path: Path) -> None:
    other = tmp_path / "spark-of-another-program"
    other.mkdir()
    (other / "file").write_bytes(bytes(10_000))
    dead, living = Run(tmp_path), Run(tmp_path)
    dead.kill()
    found = left_in(tmp_path)
    assert (found.dead >= 1_000_000, found.unknown >= 10_000) == (True, True)
    next_run = Run(tmp_path)
    assert not dead.own.exists()
    assert [living.own.is_dir(), next_run.own.is_dir()] == [True, True]
    assert other.is_dir()
    assert left_in(tmp_path).dead == 0
    living.end()
    next_run.end()
    assert sorted(child.name for child in tmp_path.iterdir()) == [other.name]


def test_a_folder_is_never_shared(tmp_path: Path) -> None:
    one, two = take_scratch([tmp_path]), take_scratch([tmp_path])
    assert one != two
    assert all(folder.is_dir() for folder in (*one, *two))


def test_where_spark_has_its_files(tmp_path: Path) -> None:
    before = os.environ.pop(DIRS, None)
    try:
        assert scratch_folders({"spark.local.dir": f"{tmp_path}/a, {tmp_path}/b"}) == [tmp_path / "a", tmp_path / "b"]
        os.environ[DIRS] = str(tmp_path)
        assert scratch_folders({"spark.local.dir": "elsewhere"}) == [tmp_path]
    finally:
        os.environ.pop(DIRS, None)
        if before is not None:
            os.environ[DIRS] = before
