"""What bench backlog reads: the job's output, and the memory of a process with its children."""

import subprocess
import sys

from bench.backlog import _BATCH, _Progress
from bench.memory import memory_of_tree

SAID = """\
2026-11-22 09:30:00.123Z INFO    Running; checkpoint in checkpoint. Ctrl-C stops it.
2026-11-22 09:30:00.123Z INFO    batch 0: 5 written  committed 4  half 4  op 6  applied 4
2026-11-22 09:30:00.123Z INFO    batch 1: 0 written
2026-11-22 09:30:00.123Z INFO    batch 2: 3 written  applied 1  checked 1  committed 1  half 3  op 0
2026-11-22 09:30:00.123Z INFO    batch 3: 1 wri"""
HOLDS_64_MIB = "import sys; held = b'x' * (64 << 20); print('ready', flush=True); sys.stdin.read()"


def test_progress_is_what_the_job_prints() -> None:
    progress = _Progress()
    for counts in _BATCH.findall(SAID):
        progress.add(counts)
    assert (progress.batches, progress.counts["committed"], progress.counts["checked"]) == (3, 5, 1)
    assert progress.most_waiting == 2


def test_the_memory_of_children_is_counted() -> None:
    starts_another = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS_64_MIB!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", starts_another], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        with_child = memory_of_tree(parent.pid)
        parent.communicate()
    assert 64 < with_child.tree < 1_000
    assert with_child.java == 0
    assert memory_of_tree(parent.pid).tree == 0
