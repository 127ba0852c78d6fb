"""Fresh environments with the wheels in them, away from the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a folder beside it in which its commands run."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "env" / "bin" / "python")

    @property
    def command(self) -> str:
        """Its ``checkback``."""
        return str(self.folder / "env" / "bin" / "checkback")

    def run(self, *arguments: str, seconds: float = 60, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs, with nothing of the tests' own Python in the environment."""
        return subprocess.run(
            arguments,
            cwd=self.folder,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def variables(self, **more: str) -> dict[str, str]:
        """Environment variables of its processes."""
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        return {**kept, **more}

    @classmethod
    def make(
        cls, folder: Path, *wheels: Path, others: bool = False, interpreter: str = sys.executable
    ) -> "Environment":
        """Install these wheels, and what they need, for this ``interpreter``.

        ``others``: that is taken from the environment of the tests, without what is editable in there, instead of
        fetched; ``pip check`` has to find that nothing is missing.
        """
        made = cls(folder)
        subprocess.run([interpreter, "-m", "venv", str(folder / "env")], env=made.variables(), check=True)
        constraints = ("--constraint", str(ROOT / "constraints.txt"))
        alone = ("--no-deps",) if others else constraints
        subprocess.run(
            [made.python, *_PIP, "install", *alone, *map(str, wheels)], cwd=folder, env=made.variables(), check=True
        )
        if others:
            # venv's own is older than what the others want, and stands before theirs
            subprocess.run([made.python, *_PIP, "uninstall", "--yes", "setuptools"], env=made.variables(), check=True)
            site = sysconfig.get_path("purelib", vars={"base": str(folder / "env")})
            Path(site, "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        return made


def build_wheels(folder: Path) -> tuple[Path, ...]:
    """The wheels of ``checkback``, ``checkback-job``, ``checkback-lab`` and ``checkback-gateway``."""
    places = [str(ROOT), *(str(ROOT / "deploy" / name) for name in ("job", "lab", "gateway"))]
    subprocess.run([sys.executable, *_PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), *places], check=True)
    (sdk,) = folder.glob("checkback-*.whl")
    (job,) = folder.glob("checkback_job-*.whl")
    (lab,) = folder.glob("checkback_lab-*.whl")
    (gateway,) = folder.glob("checkback_gateway-*.whl")
    return sdk, job, lab, gateway


def interpreter_of(version: str) -> str | None:
    """A Python of this version, ``3.12``, if the machine has one."""
    found = shutil.which(f"python{version}")
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(installed[-1]) if installed else found
