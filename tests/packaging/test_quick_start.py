"""README's quick start, as it is typed, outside the checkout: each block, with what is expected beside it.

But for two things: the packages are the wheels that were just built, and Kafka listens on a port that is free.
"""

import os
import pty
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment
from torture.local_postgresql import free_port

_SECTION = re.compile(r"^## Quick start$(.*?)^## ", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECONDS = 120.0
README = (ROOT / "README.md").read_text(encoding="utf-8")


def quick_start() -> list[tuple[str, str]]:
    """The blocks of the section: language and content."""
    found = _SECTION.search(README)
    assert found is not None
    return _BLOCK.findall(found[1])


def typed(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that are expected after it."""
    for part in block.split("$ ")[1:]:
        command, *lines = part.splitlines()
        yield command.partition("#")[0].strip(), lines


def pattern(line: str) -> str:
    """A line that is expected; ``...`` stands for anything, and for any number of lines when it is alone."""
    return ".*".join(map(re.escape, line.split("...")))


class Terminal:
    """A program in a terminal of its own: what it shows, and what is typed into it."""

    def __init__(self, command: list[str], environment: Environment, folder: Path, **variables: str) -> None:
        self._main, other = pty.openpty()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment.variables(COLUMNS="300", TERM="dumb", **variables),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._shown.decode(errors="replace").replace("\r", "")

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._main, 65_536)
            except OSError:  # the program has ended
                return
            self._shown += more

    def type(self, line: str) -> None:
        os.write(self._main, f"{line}\n".encode())

    def wait_for(self, line: str) -> None:
        wanted = re.compile(pattern(line))
        deadline = time.monotonic() + _SECONDS
        while not wanted.search(self.shown):
            assert time.monotonic() < deadline, f"{line!r} did not come; it says:\n{self.shown}"
            time.sleep(0.05)

    def wait(self) -> int:
        return self._process.wait(_SECONDS)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(10)
        os.close(self._main)


@pytest.mark.timeout(400)
def test_the_quick_start_does_what_it_says(job: Environment, tmp_path: Path) -> None:
    port = free_port()
    blocks = quick_start()
    [program] = [content for language, content in blocks if language == "python"]
    assert program.count("localhost:9092") == 1
    Path(tmp_path, "shop.py").write_text(program.replace("localhost:9092", f"127.0.0.1:{port}"), encoding="utf-8")
    variables = {"CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{port}", "CHECKBACK_JOB__DRIVER_MEMORY": "1g"}
    variables["CHECKBACK_HTTP__PORT"] = str(free_port())
    running: dict[str, Terminal] = {}
    with ExitStack() as open_terminals:

        def run(command: str) -> Terminal:
            program, *arguments = shlex.split(command)
            given = [*arguments, "--port", str(port)] if command == "checkback kafka" else arguments
            bin_folder = Path(job.python).parent
            terminal = Terminal([str(bin_folder / program), *given], job, tmp_path, **variables)
            open_terminals.callback(terminal.close)
            return terminal

        for language, block in blocks:
            if language != "console":
                continue
            for command, lines in typed(block):
                if command.startswith(("python3", "pip")):
                    continue  # the fixture has done that
                reading = command == "checkback read orders"
                terminal = running[command] if reading and command in running else run(command)
                running[command] = terminal
                for line in lines:
                    expected = line.replace("localhost:9092", f"127.0.0.1:{port}").replace("9092", str(port))
                    if expected.startswith("order: ") and not expected.startswith("order: asked"):
                        terminal.wait_for("order: ")
                        terminal.type(expected.removeprefix("order: "))
                    elif expected != "...":
                        terminal.wait_for(re.sub(r"[0-9a-f]{6}\.\.\.", "...", expected))
                if command.startswith("checkback topics"):
                    assert terminal.wait() == 0
    job_said = running["checkback run"].shown
    assert " WARNING " not in job_said, job_said


def test_the_first_block_installs_what_the_others_need() -> None:
    [installing] = [command for _, block in quick_start() for command, _ in typed(block) if command.startswith("pip")]
    assert installing == "pip install 'checkback[local,sql]' checkback-job"
