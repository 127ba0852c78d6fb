"""A process of a fault run that crashes is no process that a fault has ended: the run shows its stack and fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from torture.processes import CrashedError, Process


def test_a_crash_ends_the_run_with_its_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONFAULTHANDLER")  # a run from the command line has none
    (tmp_path / "crashing.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", encoding="utf-8")
    process = Process(["crashing"], {"PYTHONPATH": str(tmp_path)}, tmp_path / "log")
    process.wait(60)
    with pytest.raises(CrashedError, match=r"(?s)crashing has crashed.*Segmentation fault.*crashing\.py\", line 2"):
        _ = process.exit_status


def test_a_process_that_a_fault_has_ended_has_not_crashed(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    process = Process(["waiting"], {"PYTHONPATH": str(tmp_path)}, tmp_path / "log")
    assert process.exit_status is None
    process.kill()
    assert process.exit_status == -9


def test_programs_of_tests_print_their_stack_when_they_crash() -> None:
    program = "import faulthandler; assert faulthandler.is_enabled()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_process_that_is_still_starting_is_told_to_end_when_it_can_do_so_in_order(tmp_path: Path) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    program = f"import signal, sys, time\ntime.sleep(1)\n{handler}\ntime.sleep(60)\n"
    (tmp_path / "starting.py").write_text(program, encoding="utf-8")
    process = Process(["starting"], {"PYTHONPATH": str(tmp_path)}, tmp_path / "log")
    process.terminate_in_order()
    assert process.wait(60) == 7
