"""Renders the chart into ``rendered/``: ``python -m deploy.helm.render``, with ``helm`` on the path.

CI has no helm: it reads what is committed there. So each file begins with a digest of what it was made of.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CHART = HERE / "checkback"
VALUES = tuple(sorted((HERE / "values").glob("*.yaml")))
COPIES = {
    CHART / "files" / "alerts.yml": HERE.parent / "prometheus" / "alerts.yml",
    CHART / "files" / "dashboard.json": HERE.parent / "grafana" / "checkback.json",
}
"""A chart reads no files from outside of it."""
NAMESPACE = "shop"
_ARGUMENTS = ("checkback", "--namespace", NAMESPACE, "--kube-version", "1.30.0")


def digest(values: Path) -> str:
    """Of all that a rendering is made of: the chart's files, and the values."""
    found = hashlib.sha256(" ".join(_ARGUMENTS).encode())
    for file in [*_chart_files(), values]:
        content = file.read_bytes()
        found.update(f"\0{file.relative_to(HERE).as_posix()}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _chart_files() -> Iterator[Path]:
    yield from sorted(path for path in CHART.rglob("*") if path.is_file())


def rendered(values: Path, *more: str) -> str:
    """What ``helm template`` makes of the chart.

    Raises:
        subprocess.CalledProcessError: helm refuses it; ``stderr`` says why.
    """
    command = ["helm", "template", _ARGUMENTS[0], str(CHART), *_ARGUMENTS[1:], "--values", str(values), *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603  (our own command)


def target(values: Path) -> Path:
    """Where the manifests of these values are committed."""
    return HERE / "rendered" / values.name


def main() -> None:
    """Copy what the chart needs from elsewhere, then render it with each file of ``values/``."""
    if shutil.which("helm") is None:
        sys.exit("There is no helm on the path: go install helm.sh/helm/v3/cmd/helm@v3.20.2, which takes minutes.")
    for copy, source in COPIES.items():
        shutil.copyfile(source, copy)
    for values in VALUES:
        head = f"# sha256:{digest(values)} of the chart and {values.name}; made by: python -m deploy.helm.render\n"
        target(values).write_text(head + rendered(values), encoding="utf-8")


if __name__ == "__main__":
    main()
