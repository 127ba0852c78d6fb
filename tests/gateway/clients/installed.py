"""RocketMQ's clients as their registries have them, unmodified, as far as this machine can run them."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

JAVA_CLIENT = "org.apache.rocketmq:rocketmq-client-java:5.2.0"
EXAMPLES = Path(__file__).parents[3] / "examples" / "rocketmq"
PROGRAMS = Path(__file__).parent / "programs"
_SECONDS = 600


class NotHereError(Exception):
    """A client that does not run on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Client:
    """How to run a language's two programs: the example that users copy, and the one that tests drive."""

    name: str
    example: list[str]
    driven: list[str]
    folder: Path
    tls: bool = False
    """Whether it speaks nothing but TLS."""
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, home: Path) -> dict[str, str]:
        """Variables of its processes: it writes its logs below ``home``."""
        # Go's client takes the variable that Java has as a property
        return {"HOME": str(home), "user.home": str(home), "JDK_JAVA_OPTIONS": f"-Duser.home={home}", **self.variables}


def python(folder: Path) -> Client:
    """The client of PyPI, which is a requirement of the tests."""
    return Client(
        "python",
        [sys.executable, str(EXAMPLES / "python" / "transactional.py")],
        [sys.executable, str(PROGRAMS / "python" / "driven.py")],
        folder,
    )


def java(folder: Path) -> Client:
    """The client of Maven's repository.

    Raises:
        NotHereError: there is no Java compiler.
    """
    if shutil.which("javac") is None:
        raise NotHereError("needs a JDK: there is no javac")
    import jgo  # noqa: PLC0415  (brings a resolver that only this test needs)

    jars = sorted(Path(jgo.build(JAVA_CLIENT).path).glob("*/*.jar"))
    path = ":".join([str(folder), *map(str, jars)])
    sources = [EXAMPLES / "java" / "Transactional.java", PROGRAMS / "java" / "Driven.java"]
    _run(
        ["javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-d", str(folder), "-cp", path, *map(str, sources)], folder
    )
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", path]
    return Client("java", [*command, "Transactional"], [*command, "Driven"], folder)


def node(folder: Path) -> Client:
    """The client of npm.

    Raises:
        NotHereError: there is no Node 20 or newer, or no npm.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotHereError("needs Node, with npm")
    if int(_run(["node", "--version"], folder).removeprefix("v").split(".")[0]) < 20:
        raise NotHereError("needs Node 20 or newer")
    for name in ("package.json", "package-lock.json", "transactional.js"):
        shutil.copy(EXAMPLES / "node" / name, folder)
    shutil.copy(PROGRAMS / "node" / "driven.js", folder)
    _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    return Client("node", ["node", "transactional.js"], ["node", "driven.js"], folder)


def go(folder: Path) -> Client:
    """The client of Go's module proxy.

    Raises:
        NotHereError: there is no Go.
    """
    if shutil.which("go") is None:
        raise NotHereError("needs Go")
    for name, source in (("transactional", EXAMPLES / "go"), ("driven", PROGRAMS / "go")):
        made = folder / f"{name}-source"
        shutil.copytree(EXAMPLES / "go", made)
        shutil.copy(source / "main.go", made)
        _run(["go", "build", "-o", str(folder / name), "."], made)
    return Client("go", [str(folder / "transactional")], [str(folder / "driven")], folder, tls=True)


ALL: dict[str, Callable[[Path], Client]] = {"python": python, "java": java, "node": node, "go": go}


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise NotHereError(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-2_000:]}")
    return done.stdout
