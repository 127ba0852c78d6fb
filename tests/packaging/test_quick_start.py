"""README's quick start, as it is typed in a clone, at 80 columns: each block, with what is expected beside it.

But for two things: Kafka listens on a free port, and what the wheels need is that of the tests' own environment,
which spares a gigabyte. With QUICK_START_FETCH=1 in the environment pip fetches it, as it does for whoever types this.
"""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import psutil
import pytest

import checkback
from checkback import TransactionProducer
from checkback.kafka.topic_reading import ends_of, reading_consumer
from checkback.local.kafka import free_port
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Topics
from tests.listening import addresses
from tests.packaging.environments import ROOT, Environment

_SECTION = re.compile(r"^## Quick start$(.*?)^## ", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECONDS = 500.0
_COLUMNS = 80
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
            env=environment.variables(COLUMNS=str(_COLUMNS), TERM="dumb", **variables),
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
    def process(self) -> psutil.Process:
        return psutil.Process(self._process.pid)

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


def wait_until_the_op_is_there(port: int) -> None:
    """No person types as fast as the shop would lose, when it dies, the op that its producer sends 20 ms later."""
    deadline = time.monotonic() + _SECONDS
    with closing(reading_consumer(f"127.0.0.1:{port}")) as consumer:
        while not sum(ends_of(consumer, Topics().op).values()):
            assert time.monotonic() < deadline, "the first order's op did not come"
            time.sleep(0.05)


@contextmanager
def all_shown_if_it_fails(running: dict[str, Terminal]) -> Iterator[None]:
    """What did not come in one terminal is explained in another."""
    try:
        yield
    except AssertionError as error:
        for command, terminal in running.items():
            error.add_note(f"$ {command}\n{terminal.shown}")
        raise


def follow(terminal: Terminal, line: str, port: int) -> None:
    """Type what is typed into a program, or wait for what it answers."""
    if line.startswith("order: ") and not line.startswith("order: asked"):
        terminal.wait_for("order: ")
        if line == "order: die":
            wait_until_the_op_is_there(port)
        terminal.type(line.removeprefix("order: "))
    elif line != "...":
        terminal.wait_for(re.sub(r"[0-9a-f]{6}\.\.\.", "...", line))


def clone(folder: Path) -> None:
    """What git knows of the checkout, as it stands."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():  # else it is deleted, and that is not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def installing() -> list[str]:
    """The commands of the first block before the first of ours."""
    commands = [command for command, _ in typed(quick_start()[0][1])]
    return commands[: commands.index("checkback kafka")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A clone, with the environment that the first commands make in it."""
    place = Environment(tmp_path_factory.mktemp("clone"))
    clone(place.folder)
    fetching = bool(os.environ.get("QUICK_START_FETCH"))
    variables = {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with_these = {**place.variables(**variables), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    alone = "" if fetching else "PIP_NO_DEPS=1 "
    typing = [f"{alone}{command}" if command.startswith("pip install") else command for command in installing()]
    script = "\n".join(["set -e", *typing])
    done = subprocess.run(
        ["bash", "-c", script], cwd=place.folder, env=with_these, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if not fetching:
        site = sysconfig.get_path("purelib", vars={"base": str(place.folder / "env")})
        Path(site, "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return place


@pytest.mark.timeout(1800)
def test_the_quick_start_does_what_it_says(installed: Environment) -> None:
    port = free_port()
    blocks = quick_start()
    [program] = [content for language, content in blocks if language == "python"]
    assert program.count("localhost:9092") == 1
    here = installed.folder / "try"
    (here / "shop.py").write_text(program.replace("localhost:9092", f"127.0.0.1:{port}"), encoding="utf-8")
    variables = {"CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{port}", "CHECKBACK_JOB__DRIVER_MEMORY": "1g"}
    variables["CHECKBACK_HTTP__PORT"] = str(free_port())
    running: dict[str, Terminal] = {}
    with ExitStack() as open_terminals, all_shown_if_it_fails(running):

        def run(command: str) -> Terminal:
            program, *arguments = shlex.split(command)
            given = [*arguments, "--port", str(port)] if command == "checkback kafka" else arguments
            bin_folder = Path(installed.python).parent
            terminal = Terminal([str(bin_folder / program), *given], installed, here, **variables)
            open_terminals.callback(terminal.close)
            return terminal

        for language, block in blocks:
            if language != "console":
                continue
            for command, lines in typed(block):
                if command in installing():
                    continue  # the fixture has done that
                reading = command == "checkback read orders"
                terminal = running[command] if reading and command in running else run(command)
                running[command] = terminal
                for line in lines:
                    follow(
                        terminal, line.replace("localhost:9092", f"127.0.0.1:{port}").replace("9092", str(port)), port
                    )
                if command.startswith("checkback topics"):
                    assert terminal.wait() == 0
        for command in ("checkback kafka", "checkback run"):
            assert addresses(running[command].process) == {"127.0.0.1"}, command
    for command, terminal in running.items():
        before, stopping, after = terminal.shown.partition("Stopping ...")
        # on a busy machine a worker of PySpark's may find its Java gone, and PySpark's daemon prints where
        own = before if stopping and "pyspark/daemon.py" in after else terminal.shown
        assert "Traceback" not in own, (command, terminal.shown)
    job_said = running["checkback run"].shown
    assert warnings_in(job_said) == [], job_said
    assert "WARNING: " not in job_said, job_said


def warnings_in(job_said: str) -> list[str]:
    """What the job warns of, but for a shop that has died: where it starts again slowly, its old address is tried."""
    warned = [line for line in job_said.splitlines() if " WARNING " in line]
    return [line for line in warned if not re.search(r"Check endpoint .* of group shop is skipped for now: ", line)]


SHOP = [content for language, content in quick_start() if language == "python"]


@pytest.mark.parametrize("ending", ["a wrong address", "end of input", "Ctrl-C"])
def test_the_shop_ends_without_a_traceback(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [program] = SHOP
    monkeypatch.chdir(tmp_path)
    errors = {"end of input": EOFError(), "Ctrl-C": KeyboardInterrupt()}
    if ending in errors:
        recording = RecordingTransport()
        monkeypatch.setattr(checkback, "TransactionProducer", partial(TransactionProducer, transport=recording))
        monkeypatch.setattr(checkback, "CheckEndpoint", lambda *_: nullcontext())

        def end(_: str) -> str:
            raise errors[ending]

        monkeypatch.setattr("builtins.input", end)
        exec(compile(program, "shop.py", "exec"), {})  # noqa: S102  (that is the test)
        return
    program = program.replace("localhost:9092", f"127.0.0.1:{free_port()}")
    with pytest.raises(SystemExit) as ended:
        exec(compile(program, "shop.py", "exec"), {})  # noqa: S102  (likewise)
    assert str(ended.value.code).startswith("No Kafka answers at 127.0.0.1:")


def test_what_is_shown_fits_a_terminal_and_the_page_an_editor() -> None:
    shown = [line for language, block in quick_start() if language == "console" for line in block.splitlines()]
    assert [line for line in shown if len(line) > _COLUMNS] == []
    assert [line for line in README.splitlines() if len(line) > 119] == []


def test_the_first_block_installs_what_the_others_need() -> None:
    assert installing() == [
        "python3 -m venv env && . env/bin/activate",
        "pip wheel --no-deps --wheel-dir dist . deploy/job",
        "pip install --constraint constraints.txt dist/*.whl",
        "mkdir -p try && cd try",
    ]
